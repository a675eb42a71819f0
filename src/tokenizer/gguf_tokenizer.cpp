#include "tokenizer/gguf_tokenizer.h"

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

}  // namespace

const GgufVocabulary::Piece& GgufTokenizer::at(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw BadInput("tokenizer", "expected ids from 0 to {}, got {}", vocab_size() - 1, id);
  }
  return vocabulary_.pieces[static_cast<std::size_t>(id)];
}

std::vector<std::int32_t> GgufTokenizer::encode(std::string_view text, SpecialTokens policy,
                                                EncodingRecorder* recorder) const {
  if (text.size() > kMaxTextBytes) {
    throw BadInput("tokenizer", "expected at most {} bytes of text, got {}", kMaxTextBytes, text.size());
  }
  const bool apply = policy == SpecialTokens::apply;
  std::vector<std::int32_t> ids;
  const auto add_token = [&](std::int32_t id, Explanation::Token::From from) {
    ids.push_back(id);
    if (recorder != nullptr) recorder->token(id, from);
  };
  if (apply && vocabulary_.add_bos) add_token(vocabulary_.bos.value(), Explanation::Token::From::policy);
  bool is_first = true;
  for (const GgufSpecialTokens::Fragment& fragment : special_.cut(text, apply)) {
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
