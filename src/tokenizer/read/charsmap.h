// The precompiled character map of SentencePiece: rules that replace byte strings, found by a double-array trie.
//
// Layout of the blob, little endian: uint32 size of the trie in bytes, the trie (uint32 units of Darts-clone), then the
// replacements, each terminated by NUL. The value of a leaf is the offset of its replacement. Sources:
// google/sentencepiece, normalizer.cc (DecodePrecompiledCharsMap); s-yata/darts-clone, darts.h (the bits of a unit).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

class Charsmap {
 public:
  /// A map without rules.
  Charsmap() = default;

  /// Reads a blob; an empty one has no rules. Checks every reachable unit and every replacement, so that matching stays
  /// within the array. Throws BadCheckpoint if the blob is malformed; `where` names the file in errors.
  static Charsmap parse(std::string_view blob, std::string_view where);

  struct Match {
    std::size_t length = 0;        ///< Bytes of the text that the rule replaces; 0 if no rule matches.
    std::string_view replacement;  ///< May be empty. Valid as long as the map.
  };

  bool empty() const { return units_.empty(); }

  /// The longest rule that matches the front of `text`, which SentencePiece applies.
  Match longest(std::string_view text) const { return find(text, false); }
  /// The shortest such rule, which Hugging Face's `Precompiled` applies.
  Match shortest(std::string_view text) const { return find(text, true); }

 private:
  void check(std::string_view where) const;
  void check_replacement(std::uint32_t leaf, std::string_view where) const;
  Match find(std::string_view text, bool shortest) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace vitrine
