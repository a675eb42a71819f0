#include "tokenizer/tokenizer.h"

#include <utility>

namespace vitrine {

bool Tokenizer::keeps_start(std::int32_t /*id*/) const { return false; }

Explanation Tokenizer::explain(std::string_view text, SpecialTokens policy, std::size_t max_items) const {
  EncodingRecorder recorder(max_items);
  std::vector<std::int32_t> ids = encode(text, policy, &recorder);
  return recorder.finish(std::move(ids));
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
