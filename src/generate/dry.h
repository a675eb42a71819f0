// DRY, "don't repeat yourself": tokens that would continue a repetition become less likely, the more so the longer it
// is. Source: llama.cpp's sampler of this name (after p-e-w, 2024).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Where a repetition may begin anew: texts that it does not reach across.
class DryBreakers {
 public:
  DryBreakers(const Tokenizer& tokenizer, const std::vector<std::string>& texts);

  /// The number of last ids of the text after the last breaker.
  std::size_t limit(std::span<const std::int32_t> ids) const;

 private:
  std::unordered_map<std::int32_t, std::vector<std::vector<std::int32_t>>> tails_;  // by a breaker's first token
};

/// For each token that would continue a repetition of at least `allowed` tokens at the end of `ids`: how many tokens of
/// the end have occurred before it. `limit`: of them at most.
std::map<std::int32_t, std::size_t> dry_repeats(std::span<const std::int32_t> ids, std::size_t allowed,
                                                std::size_t limit);

}  // namespace vitrine
