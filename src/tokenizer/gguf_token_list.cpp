#include "tokenizer/gguf_token_list.h"

#include <fmt/format.h>

#include "base/error.h"

namespace vitrine {

void GgufTokenList::add(std::string_view text, float score, PieceType type) {
  texts_.emplace_back(text);
  scores_.push_back(score);
  types_.push_back(static_cast<std::int32_t>(type));
}

void GgufTokenList::pad(std::int64_t vocab_size, std::string_view path) {
  const auto n = static_cast<std::int64_t>(texts_.size());
  if (n > vocab_size)
    throw BadCheckpoint(path, "expected at most {} tokens, the size of the model's vocabulary, got {}", vocab_size, n);
  for (std::int64_t i = n; i < vocab_size; ++i) add(fmt::format("[PAD{}]", i), -1000.0F, PieceType::unused);
}

void GgufTokenList::add_to(GgufKeys& keys, bool with_scores) const {
  keys.add("tokenizer.ggml.tokens", texts_);
  if (with_scores) keys.add("tokenizer.ggml.scores", scores_);
  keys.add("tokenizer.ggml.token_type", types_);
}

}  // namespace vitrine
