// The tokens with which models fill in the middle of a text ("FIM"). Source: Bavarian et al., "Efficient Training of
// Language Models to Fill in the Middle", 2022.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/function_ref.h"

namespace vitrine {

/// A model with the first three reads `prefix` what is before, `suffix` what is after, `middle`, and writes what is
/// between.
struct FimTokens {
  std::optional<std::int32_t> prefix, suffix, middle;
  std::optional<std::int32_t> pad;         ///< Fills up the texts of training.
  std::optional<std::int32_t> repository;  ///< Comes before the name of a repository,
  std::optional<std::int32_t> file;        ///< and before the name of each of its files.
  std::optional<std::int32_t> end;         ///< Of the middle.

  bool can_fill() const { return prefix && suffix && middle; }
  /// All of them, in this order. Each ends the middle: what follows it is another text.
  std::vector<std::int32_t> all() const;
};

/// The tokens of a vocabulary by the spellings that models have for them. `find` returns the id of a piece, or kNoId.
FimTokens find_fim_tokens(FunctionRef<std::int32_t(std::string_view)> find);

/// The same of pieces without an index: `piece` returns the spelling of an id below `n`.
FimTokens find_fim_tokens(std::int64_t n, FunctionRef<std::string_view(std::int32_t)> piece);

}  // namespace vitrine
