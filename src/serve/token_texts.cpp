#include "serve/token_texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "tokenizer/utf8.h"

namespace vitrine {

TokenTexts::TokenTexts(const Tokenizer* tokenizer, std::optional<std::int32_t> previous)
    : tokenizer_(tokenizer != nullptr ? &tokenizer->target() : nullptr) {
  if (tokenizer_ == nullptr) return;
  const bool is_known = previous && *previous < tokenizer_->vocab_size();
  detokenizer_.emplace(*tokenizer_, is_known ? previous : std::nullopt);
}

TokenText TokenTexts::next(std::int32_t id) const {
  if (!has(id)) return {fmt::format("token_id:{}", id), std::nullopt};
  Detokenizer detokenizer = *detokenizer_;
  std::string bytes = detokenizer.push(id);
  if (bytes.empty()) return {tokenizer_->piece(id), std::nullopt};
  if (is_valid_utf8(bytes)) return {bytes, bytes};
  std::string text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return {std::move(text), std::move(bytes)};
}

void TokenTexts::advance(std::int32_t id) {
  if (!has(id)) return;
  const std::string bytes = detokenizer_->push(id);
  n_characters_ += std::count_if(bytes.begin(), bytes.end(), [](char byte) { return !is_continuation(byte); });
}

}  // namespace vitrine
