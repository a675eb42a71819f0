// The tokens that consist of characters of one kind, such as those of JSON strings. Constraints share them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "constrain/frames.h"
#include "constrain/vocabulary.h"

namespace vitrine::constrain {

/// The tokens that consist of the characters of one rule, by the number of characters that they begin.
struct CharacterTable {
  static constexpr std::uint16_t kInside = 0xFFFF;
  struct Group {
    std::int64_t n_begun;  ///< Characters, the last of which may be incomplete.
    Length rest;           ///< The bytes that complete it.
    std::vector<std::int32_t> ids;
  };
  Mask all;
  std::vector<Group> groups;          ///< Ascending by n_begun.
  std::vector<std::uint16_t> counts;  ///< By node of the trie: characters up to its end; kInside: no end of one.
};

/// The table of the characters of a rule, for which Frames::is_character() is true. The vocabulary keeps the last ones.
std::shared_ptr<const CharacterTable> character_table(Frames& frames, std::int32_t rule, const Vocabulary& vocabulary);

}  // namespace vitrine::constrain
