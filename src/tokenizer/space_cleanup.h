// The rules by which BERT's decoded text loses the spaces before punctuation and in contractions.
//
// Source: transformers 5.24.0, clean_up_tokenization in tokenization_utils_base.py. It replaces in the whole text, rule
// after rule; so does this, in a text that arrives in parts.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace vitrine {

class SpaceCleanup {
 public:
  /// Adds bytes, and returns those of the result that the next ones cannot change.
  std::string push(std::string_view bytes) { return replaced(bytes, false); }
  /// At the end of the text: returns the rest.
  std::string flush() { return replaced("", true); }

 private:
  static constexpr std::size_t kRules = 10;
  std::string replaced(std::string_view bytes, bool at_end);

  std::array<std::string, kRules> held_;  // of each rule, what may become its pattern
};

std::string clean_up_spaces(std::string_view text);

}  // namespace vitrine
