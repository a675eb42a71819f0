#include "constrain/char_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

namespace vitrine::constrain {
namespace {

constexpr std::uint32_t kLast = 0x10FFFF;

struct CategoryName {
  std::string_view name, code;
};

/// The long names, and the groups, of General_Category. Source: Unicode's PropertyValueAliases.txt.
constexpr CategoryName kCategoryNames[] = {{"Letter", "L"},
                                           {"Cased_Letter", "LC"},
                                           {"Uppercase_Letter", "Lu"},
                                           {"Lowercase_Letter", "Ll"},
                                           {"Titlecase_Letter", "Lt"},
                                           {"Modifier_Letter", "Lm"},
                                           {"Other_Letter", "Lo"},
                                           {"Mark", "M"},
                                           {"Combining_Mark", "M"},
                                           {"Nonspacing_Mark", "Mn"},
                                           {"Spacing_Mark", "Mc"},
                                           {"Enclosing_Mark", "Me"},
                                           {"Number", "N"},
                                           {"Decimal_Number", "Nd"},
                                           {"digit", "Nd"},
                                           {"Letter_Number", "Nl"},
                                           {"Other_Number", "No"},
                                           {"Punctuation", "P"},
                                           {"punct", "P"},
                                           {"Connector_Punctuation", "Pc"},
                                           {"Dash_Punctuation", "Pd"},
                                           {"Open_Punctuation", "Ps"},
                                           {"Close_Punctuation", "Pe"},
                                           {"Initial_Punctuation", "Pi"},
                                           {"Final_Punctuation", "Pf"},
                                           {"Other_Punctuation", "Po"},
                                           {"Symbol", "S"},
                                           {"Math_Symbol", "Sm"},
                                           {"Currency_Symbol", "Sc"},
                                           {"Modifier_Symbol", "Sk"},
                                           {"Other_Symbol", "So"},
                                           {"Separator", "Z"},
                                           {"Space_Separator", "Zs"},
                                           {"Line_Separator", "Zl"},
                                           {"Paragraph_Separator", "Zp"},
                                           {"Other", "C"},
                                           {"Control", "Cc"},
                                           {"cntrl", "Cc"},
                                           {"Format", "Cf"},
                                           {"Surrogate", "Cs"},
                                           {"Private_Use", "Co"},
                                           {"Unassigned", "Cn"}};

/// The characters of each category, by its code of two letters.
std::map<std::string_view, CharSet> sets_by_category() {
  constexpr std::array<std::string_view, 30> kCodes = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                                       "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                                       "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
  std::map<std::string_view, CharSet> sets;
  std::array<std::vector<CharRange>, kCodes.size()> ranges;
  for (std::uint32_t c = 0; c <= kLast; ++c) {
    auto& of_category = ranges[static_cast<std::size_t>(utf8proc_category(static_cast<utf8proc_int32_t>(c)))];
    if (!of_category.empty() && of_category.back().last + 1 == c) {
      of_category.back().last = c;
    } else {
      of_category.push_back({c, c});
    }
  }
  for (std::size_t i = 0; i < kCodes.size(); ++i) {
    if (kCodes[i] != "Cs") sets[kCodes[i]] = CharSet::of_ranges(std::move(ranges[i]));
  }
  return sets;
}

}  // namespace

CharSet::CharSet(std::vector<CharRange> unsorted) {
  std::sort(unsorted.begin(), unsorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const CharRange& r : unsorted) {
    if (!ranges_.empty() && r.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, r.last);
    } else {
      ranges_.push_back(r);
    }
  }
}

CharSet CharSet::all() { return range(0, kLast); }

CharSet CharSet::range(std::uint32_t first, std::uint32_t last) {
  constexpr std::uint32_t kSurrogate = 0xD800, kAfterSurrogates = 0xE000;
  std::vector<CharRange> parts;
  last = std::min(last, kLast);
  if (first < kSurrogate && first <= last) parts.push_back({first, std::min(last, kSurrogate - 1)});
  if (last >= kAfterSurrogates && first <= last) parts.push_back({std::max(first, kAfterSurrogates), last});
  CharSet set;
  set.ranges_ = std::move(parts);
  return set;
}

CharSet CharSet::of_any(std::string_view ascii) {
  std::vector<CharRange> parts;
  for (const char c : ascii) parts.push_back({static_cast<unsigned char>(c), static_cast<unsigned char>(c)});
  return CharSet(std::move(parts));
}

bool CharSet::contains(std::uint32_t c) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), c,
                                      [](std::uint32_t value, const CharRange& r) { return value < r.first; });
  return after != ranges_.begin() && c <= std::prev(after)->last;
}

std::uint64_t CharSet::size() const {
  std::uint64_t n = 0;
  for (const CharRange& r : ranges_) n += r.last - r.first + 1;
  return n;
}

CharSet CharSet::operator|(const CharSet& other) const {
  std::vector<CharRange> parts = ranges_;
  parts.insert(parts.end(), other.ranges_.begin(), other.ranges_.end());
  return CharSet(std::move(parts));
}

CharSet CharSet::operator&(const CharSet& other) const {
  CharSet common;
  for (std::size_t i = 0, k = 0; i < ranges_.size() && k < other.ranges_.size();) {
    const CharRange& a = ranges_[i];
    const CharRange& b = other.ranges_[k];
    const std::uint32_t first = std::max(a.first, b.first), last = std::min(a.last, b.last);
    if (first <= last) common.ranges_.push_back({first, last});
    a.last < b.last ? ++i : ++k;
  }
  return common;
}

CharSet CharSet::operator~() const {
  CharSet rest;
  std::uint32_t next = 0;
  const auto add = [&](std::uint32_t first, std::uint32_t end) {
    if (first < end) {
      for (const CharRange& r : range(first, end - 1).ranges_) rest.ranges_.push_back(r);
    }
  };
  for (const CharRange& r : ranges_) {
    add(next, r.first);
    next = r.last + 1;
  }
  add(next, kLast + 1);
  return CharSet(std::move(rest.ranges_));
}

CharSet general_category(std::string_view name) {
  static const std::map<std::string_view, CharSet> kSets = sets_by_category();
  if (name == "Any") return CharSet::all();
  if (name == "ASCII") return CharSet::range(0, 0x7F);
  for (const CategoryName& known : kCategoryNames) {
    if (known.name == name) name = known.code;
  }
  if (name == "LC") return kSets.at("Lu") | kSets.at("Ll") | kSets.at("Lt");
  CharSet set;
  for (const auto& [code, characters] : kSets) {
    if (code == name || (name.size() == 1 && code[0] == name[0])) set = set | characters;
  }
  return set;
}

CharSet digits() { return CharSet::range('0', '9'); }

CharSet word_characters() { return digits() | CharSet::range('A', 'Z') | CharSet::range('a', 'z') | CharSet::of('_'); }

CharSet white_space() {
  return CharSet::of_any("\t\n\v\f\r ") | CharSet::of(0xA0) | CharSet::of(0x1680) | CharSet::range(0x2000, 0x200A) |
         CharSet::of(0x2028) | CharSet::of(0x2029) | CharSet::of(0x202F) | CharSet::of(0x205F) | CharSet::of(0x3000) |
         CharSet::of(0xFEFF);
}

}  // namespace vitrine::constrain
