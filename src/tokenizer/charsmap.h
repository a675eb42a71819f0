// The precompiled character map of SentencePiece: rules "these bytes become those", found by a double-array trie.
//
// Blob: uint32 size of the trie in bytes, the trie (uint32 units of Darts-clone), then the replacements, each ended by
// NUL; a leaf's value is the offset of its replacement. Little endian. Source: google/sentencepiece, normalizer.cc
// (DecodePrecompiledCharsMap), and s-yata/darts-clone, darts.h (the bits of a unit).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

class Charsmap {
 public:
  /// Without rules.
  Charsmap() = default;

  /// Reads and checks a blob; an empty one has no rules. Every unit that a text can reach and every replacement is
  /// looked at here, so that matching cannot leave the array. `where` names the file in errors (BadCheckpoint).
  static Charsmap parse(std::string_view blob, std::string_view where);

  struct Match {
    std::size_t length = 0;        ///< Bytes of the text that the rule takes; 0 where no rule matches.
    std::string_view replacement;  ///< May be empty. Lives as long as the map.
  };

  bool empty() const { return units_.empty(); }

  /// The rule that takes the most bytes from the front of `text`: SentencePiece's choice.
  Match longest(std::string_view text) const { return find(text, false); }
  /// The rule that takes the fewest: the choice of Hugging Face's `Precompiled`.
  Match shortest(std::string_view text) const { return find(text, true); }

 private:
  void check(std::string_view where) const;
  void check_replacement(std::uint32_t leaf, std::string_view where) const;
  Match find(std::string_view text, bool shortest) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace vitrine
