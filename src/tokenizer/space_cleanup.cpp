#include "tokenizer/space_cleanup.h"

#include <algorithm>
#include <utility>

namespace vitrine {
namespace {

using Rule = std::pair<std::string_view, std::string_view>;

/// Moves the part of `held` that is decided to the result, with the rule's replacements.
std::string apply(const Rule& rule, std::string& held, bool at_end) {
  const auto& [from, to] = rule;
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = held.find(from); at != held.npos; at = held.find(from, begin)) {
    out.append(held, begin, at - begin).append(to);
    begin = at + from.size();
  }
  std::size_t n_open = at_end ? 0 : std::min(from.size() - 1, held.size() - begin);
  while (n_open > 0 && !std::string_view(held).ends_with(from.substr(0, n_open))) --n_open;
  out.append(held, begin, held.size() - n_open - begin);
  held.erase(0, held.size() - n_open);
  return out;
}

}  // namespace

std::string SpaceCleanup::replaced(std::string_view bytes, bool at_end) {
  static constexpr std::array<Rule, kRules> rules = {{{" .", "."},
                                                      {" ?", "?"},
                                                      {" !", "!"},
                                                      {" ,", ","},
                                                      {" ' ", "'"},
                                                      {" n't", "n't"},
                                                      {" 'm", "'m"},
                                                      {" 's", "'s"},
                                                      {" 've", "'ve"},
                                                      {" 're", "'re"}}};
  std::string text(bytes);
  for (std::size_t i = 0; i < kRules; ++i) {
    held_[i] += text;
    text = apply(rules[i], held_[i], at_end);
  }
  return text;
}

std::string clean_up_spaces(std::string_view text) {
  SpaceCleanup cleanup;
  std::string result = cleanup.push(text);
  return result + cleanup.flush();
}

}  // namespace vitrine
