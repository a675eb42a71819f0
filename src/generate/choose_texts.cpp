#include "generate/choose_texts.h"

#include "base/error.h"

namespace vitrine {

std::int32_t start_id(const Checkpoint& checkpoint, const Tokenizer* tokenizer) {
  if (checkpoint.start_id) return *checkpoint.start_id;
  if (tokenizer != nullptr && tokenizer->bos()) return *tokenizer->bos();
  if (checkpoint.bos_id) return *checkpoint.bos_id;
  throw BadInput("config.json", "decoder_start_token_id is missing: give the ids that the decoder reads");
}

std::vector<std::int32_t> decoder_ids(const std::string& text, SpecialTokens policy, const Checkpoint& checkpoint,
                                      const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids = tokenizer.target().encode(text, policy);
  ids.insert(ids.begin(), start_id(checkpoint, &tokenizer));
  return ids;
}

std::optional<std::int32_t> language_id(const TextPrefix& prefix, const Tokenizer* tokenizer) {
  if (prefix.language.empty()) return std::nullopt;
  if (tokenizer == nullptr) throw BadInput("--target-lang", "the piece of a token needs a tokenizer");
  const Tokenizer& target = tokenizer->target();
  for (std::int32_t id = 0; id < target.vocab_size(); ++id) {
    if (target.piece(id) == prefix.language) return id;
  }
  throw BadInput("--target-lang", "the vocabulary has no token {}", prefix.language);
}

void choose_texts(const TextPrefix& prefix, const Checkpoint& checkpoint, const Tokenizer* tokenizer,
                  std::vector<std::int32_t> ids, GenerateRequest& request) {
  const bool has_prefix = !prefix.text.empty() || !prefix.ids.empty();
  if (!checkpoint.model->config().encoder) {
    if (has_prefix || !prefix.language.empty()) {
      throw BadInput("--prefix", "the model has no encoder: the text is what it continues");
    }
    request.prompt = std::move(ids);
    return;
  }
  if (!prefix.text.empty() && !prefix.ids.empty()) {
    throw BadInput("--prefix", "expected --prefix or --prefix-ids, got both");
  }
  request.source = std::move(ids);
  request.prompt = {start_id(checkpoint, tokenizer)};
  if (!has_prefix) return;  // a language alone is the first token of the search
  if (const auto language = language_id(prefix, tokenizer)) request.prompt.push_back(*language);
  std::vector<std::int32_t> first = prefix.ids;
  if (!prefix.text.empty()) {
    if (tokenizer == nullptr) throw BadInput("--prefix", "expected --prefix-ids, because there is no tokenizer");
    first = tokenizer->target().encode(prefix.text, SpecialTokens::none);
  }
  request.prompt.insert(request.prompt.end(), first.begin(), first.end());
}

}  // namespace vitrine
