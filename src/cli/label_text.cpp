#include "cli/label_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/hugging_face/sentence_transformers.h"
#include "cli/output.h"
#include "cli/token_word.h"
#include "generate/text_windows.h"

namespace vitrine::cli {

namespace {

std::string Options::*text_argument(const Options& o) {
  return o.positionals == 1 ? &Options::first : &Options::second;
}

}  // namespace

void read_text_once(Options& o) {
  if (!o.has_ids()) o.*text_argument(o) = read_text(o.*text_argument(o));
}

LabelText label_text(const Options& o, const Session& session, const std::optional<std::string>& pair) {
  if (o.has_ids()) return label_text_of(session.ids, session.types);
  LabelText result;
  const ModelConfig& model = session.checkpoint.model->config();
  const SentenceConfig folder =
      read_sentence_config(session.checkpoint.tokenizer_path, session.tokenizer.get(), model.max_seq_len);
  if (pair && (folder.reading.is_chat || !folder.pair_template.empty())) {
    throw Unsupported("attribute", "pairs in a chat template have no words to explain: give their tokens with --ids");
  }
  result.texts = {folder.prepared(o.*text_argument(o))};
  std::optional<std::string> second;
  if (pair) result.texts.push_back(*(second = folder.without_prompt(*pair)));
  const WindowOptions most{folder.max_tokens, {}, o.no_special ? SpecialTokens::none : SpecialTokens::apply};
  result.tokens = whole_text(*session.tokenizer, result.texts.front(), second, most);
  if (result.tokens.is_cut) note(fmt::format("the text was cut to {} tokens", folder.max_tokens));
  if (model.embedding.n_types == 0 || !folder.gives_types) result.tokens.types.clear();
  return result;
}

std::int32_t baseline_of(const std::optional<std::string>& given, const Session& session) {
  const std::string name = given.value_or(session.checkpoint.pad_id ? "pad" : "mask");
  if (name == "mask") return mask_token(session, "--baseline");
  if (name != "pad") return token_of(session, name);
  if (session.checkpoint.pad_id) return *session.checkpoint.pad_id;
  throw BadInput("--baseline", "the model's config has no pad_token_id: expected mask, a word or #ID");
}

}  // namespace vitrine::cli
