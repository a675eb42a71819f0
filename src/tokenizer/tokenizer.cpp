#include "tokenizer/tokenizer.h"

#include <utility>

#include "base/error.h"

namespace vitrine {
namespace {

void check_size(std::string_view text) {
  constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;
  if (text.size() > kMaxTextBytes) {
    throw BadInput("tokenizer", "expected at most {} bytes of text, got {}", kMaxTextBytes, text.size());
  }
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, SpecialTokens policy) const {
  check_size(text);
  return encode(text, policy, nullptr);
}

Explanation Tokenizer::explain(std::string_view text, SpecialTokens policy, std::size_t max_items) const {
  check_size(text);
  EncodingRecorder recorder(max_items);
  std::vector<std::int32_t> ids = encode(text, policy, &recorder);
  return recorder.finish(std::move(ids));
}

std::size_t Tokenizer::checked_index(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw BadInput("tokenizer", "expected ids from 0 to {}, got {}", vocab_size() - 1, id);
  }
  return static_cast<std::size_t>(id);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  Detokenizer detokenizer(*this);
  std::string text;
  for (std::int32_t id : ids) text += detokenizer.push(id);
  return text;
}

std::string Detokenizer::push(std::int32_t id) {
  std::string bytes = tokenizer_->bytes_after(previous_, id);
  if (!tokenizer_->keeps_start(id)) previous_ = id;
  return bytes;
}

}  // namespace vitrine
