#include "cli/label_text.h"

#include "base/error.h"
#include "cli/token_word.h"

namespace vitrine::cli {

namespace {

std::string Options::*text_argument(const Options& o) {
  return o.positionals == 1 ? &Options::first : &Options::second;
}

}  // namespace

void read_text_once(Options& o) {
  if (!o.has_ids()) o.*text_argument(o) = read_text(o.*text_argument(o));
}

LabelText label_text(const Options& o, const Session& session, TextInputs& inputs,
                     const std::optional<std::string>& pair, bool with_words) {
  if (o.has_ids()) return label_text_of(session.ids, session.types);
  const std::string& text = o.*text_argument(o);
  inputs.add(text, pair);
  inputs.report_cut();
  if (!with_words) return label_text_of(inputs.ids(0), inputs.types(0));
  LabelText placed = inputs.placed(text, pair);
  if (placed.tokens.ids == inputs.ids(0)) return placed;
  throw Unsupported("attribute", "the places of the text's words are not known: its tokens have none");
}

std::int32_t baseline_of(const std::optional<std::string>& given, const Session& session) {
  const std::string name = given.value_or(session.checkpoint.pad_id ? "pad" : "mask");
  if (name == "mask") return mask_token(session, "--baseline");
  if (name != "pad") return token_of(session, name);
  if (session.checkpoint.pad_id) return *session.checkpoint.pad_id;
  throw BadInput("--baseline", "the model's config has no pad_token_id: expected mask, a word or #ID");
}

}  // namespace vitrine::cli
