#include "cli/label_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/hugging_face/sentence_transformers.h"
#include "cli/output.h"
#include "cli/token_word.h"
#include "generate/text_windows.h"

namespace vitrine::cli {

std::vector<bool> LabelText::kept() const {
  std::vector<bool> all;
  for (const std::int8_t from : tokens.texts) all.push_back(from < 0);
  return all;
}

namespace {

std::string Options::*text_argument(const Options& o) {
  return o.positionals == 1 ? &Options::first : &Options::second;
}

}  // namespace

void read_text_once(Options& o) {
  if (!o.has_ids()) o.*text_argument(o) = read_text(o.*text_argument(o));
}

LabelText label_text(const Options& o, const Session& session, const std::optional<std::string>& pair) {
  LabelText result;
  if (o.has_ids()) {
    result.tokens.ids = session.ids;
    result.tokens.types = session.types;
    result.tokens.texts.resize(session.ids.size());
    result.tokens.places.resize(session.ids.size());
    for (std::size_t i = 0; i < session.ids.size(); ++i) result.tokens.words.push_back(static_cast<std::int32_t>(i));
    return result;
  }
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

std::size_t label_number(const TaskHead& head, const std::string& name, const char* where) {
  const auto found = std::find(head.labels.begin(), head.labels.end(), name);
  if (found == head.labels.end()) {
    throw BadInput(where, "expected a label ({}), got {}", fmt::join(head.labels, ", "), name);
  }
  return static_cast<std::size_t>(found - head.labels.begin());
}

std::int32_t baseline_of(const std::optional<std::string>& given, const Session& session) {
  const std::string name = given.value_or(session.checkpoint.pad_id ? "pad" : "mask");
  if (name == "mask") return mask_token(session, "--baseline");
  if (name != "pad") return token_of(session, name);
  if (session.checkpoint.pad_id) return *session.checkpoint.pad_id;
  throw BadInput("--baseline", "the model's config has no pad_token_id: expected mask, a word or #ID");
}

}  // namespace vitrine::cli
