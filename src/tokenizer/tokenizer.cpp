#include "tokenizer/tokenizer.h"

namespace vitrine {

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  Detokenizer detokenizer(*this);
  std::string text;
  for (std::int32_t id : ids) text += detokenizer.push(id);
  return text;
}

std::string Detokenizer::push(std::int32_t id) {
  std::string bytes = tokenizer_->bytes_after(previous_, id);
  previous_ = id;
  return bytes;
}

}  // namespace vitrine
