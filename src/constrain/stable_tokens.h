// The tokens of the beginning of a text, whatever follows it.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constrain/vocabulary.h"

namespace vitrine::constrain {

/// Thread-safe.
class StableTokens {
 public:
  StableTokens(const Tokenizer& tokenizer, const Vocabulary& vocabulary)
      : tokenizer_(tokenizer), vocabulary_(vocabulary) {}

  /// The first ids of the text that stay the same when it goes on. It is encoded before single characters of every
  /// kind, and before the rest of each token that begins with the text's end.
  std::vector<std::int32_t> of(const std::string& text) const;

 private:
  std::size_t n_before(std::span<const std::int32_t> ids, std::string_view text) const;
  std::vector<std::string> continuations_of(const std::string& text) const;

  const Tokenizer& tokenizer_;
  const Vocabulary& vocabulary_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::vector<std::int32_t>> known_;
};

}  // namespace vitrine::constrain
