#include "serve/fim_fields.h"

#include "generate/fim_prompt.h"
#include "serve/prompts.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxFiles = 1 << 10;

std::vector<FimFile> read_files(RequestFields& fields) {
  const Json* const list = fields.find("input_extra");
  if (list == nullptr) return {};
  if (!list->is_array()) throw wrong_type("input_extra", "a list of objects", *list);
  if (list->size() > kMaxFiles) {
    throw RequestError(kInvalid, "input_extra", "expected at most {} files, got {}", kMaxFiles, list->size());
  }
  std::vector<FimFile> files;
  for (std::size_t i = 0; i < list->size(); ++i) {
    RequestFields own = fields.of((*list)[i], fmt::format("input_extra[{}]", i));
    const auto text = own.text("text");
    if (!text) throw RequestError(kInvalid, own.name_of("text"), "expected a string, got none");
    FimFile file;
    file.text = *text;
    if (const auto name = own.text("filename")) file.name = *name;
    own.ignore({"time"});  // of editors that keep the files
    own.finish();
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

void require_fim_tokens(const ServedModel& model, const std::string& where) {
  if (!can_fill(model.defaults)) throw RequestError(kInvalid, where, "{}", kNoFimTokens);
}

std::vector<Prompt> read_fim_prompts(const ServedModel& model, RequestFields& fields, const std::string& suffix,
                                     bool adds_bos) {
  return each_prompt(fields, "prompt", [&](const Json& value, const std::string& where) {
    Prompt prompt;
    if (value.is_string()) {
      prompt.text = value.get<std::string>();
      prompt.ids = fim_prompt(model.defaults, *prompt.text, suffix, "suffix", adds_bos);
    } else {
      prompt.ids = fim_prompt(model.defaults, read_ids(value, where, model.vocab_size), suffix, "suffix", adds_bos);
    }
    check_prompt(model, prompt.ids, where);
    return prompt;
  });
}

Prompt read_infill(const ServedModel& model, RequestFields& fields, std::int64_t n_new) {
  const auto prefix = fields.text("input_prefix"), suffix = fields.text("input_suffix");
  if (!prefix && !suffix) throw RequestError(kInvalid, "input_prefix", "expected a text, got none");
  FimContext context;
  context.prefix = prefix.value_or("");
  context.suffix = suffix.value_or("");
  context.begin = fields.text("prompt").value_or("");
  context.files = read_files(fields);
  Prompt prompt;
  prompt.ids = fim_prompt(model.defaults, context, model.max_seq_len, n_new);
  check_prompt(model, prompt.ids, "prompt");
  return prompt;
}

}  // namespace vitrine
