// Sets of Unicode characters, as ranges of code points. Surrogates are in no set: no UTF-8 text contains them.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace vitrine::constrain {

struct CharRange {
  std::uint32_t first, last;  ///< Both included.
  bool operator==(const CharRange&) const = default;
};

class CharSet {
 public:
  CharSet() = default;
  static CharSet all();
  static CharSet of(std::uint32_t c) { return range(c, c); }
  static CharSet range(std::uint32_t first, std::uint32_t last);
  static CharSet of_any(std::string_view ascii);
  /// Ranges in any order, without surrogates.
  static CharSet of_ranges(std::vector<CharRange> ranges) { return CharSet(std::move(ranges)); }

  /// Ascending, disjoint, with a gap between neighbors.
  const std::vector<CharRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(std::uint32_t c) const;
  std::uint64_t size() const;
  bool operator==(const CharSet&) const = default;

  CharSet operator|(const CharSet& other) const;
  CharSet operator&(const CharSet& other) const;
  CharSet operator-(const CharSet& other) const { return *this & ~other; }
  CharSet operator~() const;

 private:
  explicit CharSet(std::vector<CharRange> unsorted);

  std::vector<CharRange> ranges_;
};

/// The characters of a value of General_Category: `Lu`, `Uppercase_Letter`, or a group such as `L`. Empty if there is
/// no such value; `Any` and `ASCII` are names, too.
CharSet general_category(std::string_view name);

/// The classes of ECMAScript: [0-9], [A-Za-z0-9_], white space and line ends.
CharSet digits();
CharSet word_characters();
CharSet white_space();

}  // namespace vitrine::constrain
