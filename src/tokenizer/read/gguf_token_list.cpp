#include "tokenizer/read/gguf_token_list.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"

namespace vitrine {

void refuse_tokenizer(std::string_view path, std::string_view what) {
  throw Unsupported(path, "a tokenizer with {} cannot be written to GGUF", what);
}

VocabularyPiece padding_token(std::size_t id, float score) {
  return {fmt::format("[PAD{}]", id), score, PieceType::unused};
}

void add_gguf_tokens(std::vector<VocabularyPiece> tokens, bool with_scores, std::int64_t vocab_size,
                     std::string_view path, GgufKeys& keys) {
  if (static_cast<std::int64_t>(tokens.size()) > vocab_size) {
    throw BadCheckpoint(path, "expected at most {} tokens, the size of the model's vocabulary, got {}", vocab_size,
                        tokens.size());
  }
  while (static_cast<std::int64_t>(tokens.size()) < vocab_size) {
    tokens.push_back(padding_token(tokens.size(), -1000.0F));
  }
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (VocabularyPiece& token : tokens) {
    texts.push_back(std::move(token.text));
    scores.push_back(token.score);
    types.push_back(static_cast<std::int32_t>(token.type));
  }
  keys.add("tokenizer.ggml.tokens", texts);
  if (with_scores) keys.add("tokenizer.ggml.scores", scores);
  keys.add("tokenizer.ggml.token_type", types);
}

void add_gguf_id(GgufKeys& keys, const char* key, std::optional<std::int32_t> id) {
  if (id) keys.add(key, static_cast<std::uint32_t>(*id));
}

}  // namespace vitrine
