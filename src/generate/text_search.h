// How a caller wants a text to be searched for, and how it begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vitrine {

/// Absent: the checkpoint's value, else the default.
struct TextSearch {
  std::optional<int> n_beams{};              ///< 1: no search.
  int n_best = 1;                            ///< Texts to return, at most n_beams.
  std::optional<double> length_penalty{};    ///< A score is Σ log p / length^A.
  std::optional<std::string> early_stop{};   ///< "no", "yes" or "never": whether as many texts as beams end the search.
  std::optional<std::int64_t> min_tokens{};  ///< The text has at least so many tokens.
  std::optional<std::int64_t> no_repeat_ngram{};  ///< No so many tokens in a row occur twice.
};

/// The beginning of what an encoder–decoder writes.
struct TextPrefix {
  std::string text{};               ///< Either this,
  std::vector<std::int32_t> ids{};  ///< or this, without the start symbol; both: BadInput.
  std::string language{};           ///< The piece of the language's token, which comes first; "": none.
};

}  // namespace vitrine
