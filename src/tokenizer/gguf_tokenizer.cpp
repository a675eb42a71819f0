#include "tokenizer/gguf_tokenizer.h"

namespace vitrine {

std::vector<std::int32_t> GgufTokenizer::encode(std::string_view text, SpecialTokens policy,
                                                EncodingRecorder* recorder) const {
  const bool apply = policy == SpecialTokens::apply;
  std::vector<std::int32_t> ids;
  const auto add_token = [&](std::int32_t id, Explanation::Token::From from) {
    ids.push_back(id);
    if (recorder != nullptr) recorder->token(id, from);
  };
  if (apply && vocabulary_.add_bos) add_token(vocabulary_.bos.value(), Explanation::Token::From::policy);
  bool is_first = true;
  for (const GgufSpecialTokens::Fragment& fragment : special_.split(text, apply)) {
    if (fragment.id != kNoId) {
      add_token(fragment.id, Explanation::Token::From::text);
    } else {
      if (recorder != nullptr) recorder->part(fragment.text);
      encode_text(fragment.text, is_first, recorder, ids);
    }
    is_first = fragment.id != kNoId;
  }
  if (apply && vocabulary_.add_eos) add_token(vocabulary_.eos.value(), Explanation::Token::From::policy);
  return ids;
}

}  // namespace vitrine
