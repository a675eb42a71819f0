// The routes that need no work of the scheduler: the server's state, models, the tokenizer, the chat template.
#include <algorithm>

#include "serve/prompts.h"
#include "serve/routes.h"
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

}  // namespace

namespace routes {

HttpReply health(const ServerStatus& status) {
  const bool is_ok = !status.is_loading && !status.is_draining;
  const Json json = {{"status", status.is_loading ? "loading" : status.is_draining ? "shutting down" : "ok"}};
  return {is_ok ? 200 : 503, json_text(json)};
}

HttpReply metrics(const ServerStatus& status) { return {200, status.metrics.text(), "text/plain; version=0.0.4"}; }

Json models(const ServedModel& model, const RouteRequest&) {
  Json list = Json::array();
  for (const std::string& name : model.names) list.push_back(describe(model, name));
  return {{"object", "list"}, {"data", std::move(list)}};
}

Json one_model(const ServedModel& model, const RouteRequest& request) {
  const Json id = {{"model", request.name}};
  RequestFields fields(id);
  return describe(model, read_model_name(model, fields));
}

Json tokenize(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json);
  read_model_name(model, fields);
  const auto prompt = fields.text("prompt");
  const bool adds_special = fields.flag("add_special_tokens").value_or(true);
  const auto language = fields.text("source_lang");
  fields.finish();
  if (!prompt) throw RequestError(kInvalid, "prompt", "expected a string, got none");
  const auto policy = adds_special ? SpecialTokens::apply : SpecialTokens::written;
  std::vector<std::int32_t> ids = tokenizer_of(model, "prompt").encode(*prompt, policy);
  if (language && adds_special) set_source_language(*model.tokenizer, *language, ids);
  return {{"tokens", ids}, {"count", ids.size()}, {"max_model_len", model.max_seq_len}};
}

Json detokenize(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json);
  read_model_name(model, fields);
  const Json* const tokens = fields.find("tokens");
  fields.finish();
  if (tokens == nullptr) throw RequestError(kInvalid, "tokens", "expected a list of ids, got none");
  const Tokenizer& tokenizer = tokenizer_of(model, "tokens");
  return {{"prompt", tokenizer.decode(read_ids(*tokens, "tokens", tokenizer.vocab_size()))}};
}

Json tokenizer_info(const ServedModel& model, const RouteRequest&) {
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
    if (info["eos_token"].is_null() && !model.defaults.stop_ids.empty())
      info["eos_token"] = piece(model.defaults.stop_ids.front());
  }
  if (model.chat != nullptr) info["chat_template"] = model.templates.choose(false, "model");
  return info;
}

Json apply_template(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json);
  read_model_name(model, fields);
  const ChatFormat& format = chat_of(model);
  const ChatHistory conversation = read_messages(fields);
  const bool asks_for_answer = fields.flag("add_generation_prompt").value_or(true);
  fields.finish();
  return {{"prompt", format.text(conversation, asks_for_answer)}};
}

}  // namespace routes

}  // namespace vitrine
