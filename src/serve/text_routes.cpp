#include "serve/text_routes.h"

#include <algorithm>

#include "serve/prompts.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

Json describe(const ServedModel& model, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "vitrine"},
          {"max_model_len", model.max_seq_len}};
}

Json models(const ServedModel& model) {
  Json list = Json::array();
  for (const std::string& name : model.names) list.push_back(describe(model, name));
  return {{"object", "list"}, {"data", std::move(list)}};
}

Json one_model(const ServedModel& model, const std::string& name) {
  const Json id = {{"model", name}};
  RequestFields fields(id);
  return describe(model, read_model_name(model, fields));
}

Json tokenize(const ServedModel& model, std::string_view body) {
  const Json json = parse_body(body);
  RequestFields fields(json);
  read_model_name(model, fields);
  const auto prompt = fields.text("prompt");
  const bool adds_special = fields.flag("add_special_tokens").value_or(true);
  fields.finish();
  if (!prompt) throw RequestError(kInvalid, "prompt", "expected a string, got none");
  const auto policy = adds_special ? SpecialTokens::apply : SpecialTokens::written;
  const std::vector<std::int32_t> ids = tokenizer_of(model, "prompt").encode(*prompt, policy);
  return {{"tokens", ids}, {"count", ids.size()}, {"max_model_len", model.max_seq_len}};
}

Json detokenize(const ServedModel& model, std::string_view body) {
  const Json json = parse_body(body);
  RequestFields fields(json);
  read_model_name(model, fields);
  const Json* const tokens = fields.find("tokens");
  fields.finish();
  if (tokens == nullptr) throw RequestError(kInvalid, "tokens", "expected a list of ids, got none");
  const Tokenizer& tokenizer = tokenizer_of(model, "tokens");
  return {{"prompt", tokenizer.decode(read_ids(*tokens, "tokens", tokenizer.vocab_size()))}};
}

Json tokenizer_info(const ServedModel& model) {
  const auto special = [&](std::string_view name) {
    for (const auto& [variable, text] : model.templates.special_tokens) {
      if (variable == name) return Json(text);
    }
    return Json();
  };
  Json info = {{"bos_token", special("bos_token")},
               {"eos_token", special("eos_token")},
               {"pad_token", special("pad_token")},
               {"chat_template", nullptr}};
  if (model.tokenizer != nullptr) {
    const auto piece = [&](std::int32_t id) {
      return id < model.tokenizer->vocab_size() ? Json(model.tokenizer->piece(id)) : Json();
    };
    if (info["bos_token"].is_null() && model.tokenizer->bos()) info["bos_token"] = piece(*model.tokenizer->bos());
    if (info["eos_token"].is_null() && !model.stop_ids.empty()) info["eos_token"] = piece(model.stop_ids.front());
  }
  if (model.chat != nullptr) info["chat_template"] = model.templates.choose(false, "model");
  return info;
}

Json apply_template(const ServedModel& model, std::string_view body) {
  const Json json = parse_body(body);
  RequestFields fields(json);
  read_model_name(model, fields);
  const ChatFormat& format = chat_of(model);
  const ChatHistory conversation = read_messages(fields);
  const bool asks_for_answer = fields.flag("add_generation_prompt").value_or(true);
  fields.finish();
  return {{"prompt", format.text(conversation, asks_for_answer)}};
}

}  // namespace

Json answer(const ServedModel& model, const AdmittedHead& head, std::string_view body) {
  switch (head.route) {
    case Route::models:
      return models(model);
    case Route::model:
      return one_model(model, head.model);
    case Route::tokenize:
      return tokenize(model, body);
    case Route::detokenize:
      return detokenize(model, body);
    case Route::tokenizer_info:
      return tokenizer_info(model);
    case Route::apply_template:
      return apply_template(model, body);
    default:
      throw InternalError("serve", "the route {} is answered elsewhere", static_cast<int>(head.route));
  }
}

}  // namespace vitrine
