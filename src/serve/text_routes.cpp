// The routes of the tokenizer and of the chat template.
#include "serve/foreign_fields.h"
#include "serve/modifier_fields.h"
#include "serve/prompts.h"
#include "serve/routes.h"
#include "serve/tei_info.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

/// Bytes as a text, or as a list of numbers if they are none.
Json bytes_json(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return bytes;
  return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
}

/// The ids of a request's text, by vLLM's names or by llama-server's, or of its conversation.
std::vector<std::int32_t> ids_of(const ServedModel& model, std::string_view body, RequestFields& fields) {
  const auto prompt = fields.text("prompt"), content = fields.text("content");
  const bool has_messages = fields.find("messages") != nullptr;
  const auto with_content = fields.flag("add_special"), with_prompt = fields.flag("add_special_tokens");
  const bool adds_special = content ? with_content.value_or(false) : with_prompt.value_or(true);
  const bool reads_special = fields.flag("parse_special").value_or(true);
  const auto language = fields.text("source_lang");
  std::optional<RequestedChat> chat;
  if (has_messages) chat = read_chat(model, body, fields);
  read_foreign(fields, kOfTokens);
  fields.finish();
  if (chat) return chat_of(model).encode(chat->conversation, chat->how);
  if (!prompt && !content) throw RequestError(kInvalid, "prompt", "expected a string, got none");
  const SpecialTokens unless_added = reads_special ? SpecialTokens::written : SpecialTokens::none;
  const SpecialTokens policy = adds_special ? SpecialTokens::apply : unless_added;
  std::vector<std::int32_t> ids = tokenizer_of(model, "prompt").encode(content ? *content : *prompt, policy);
  if (language && adds_special) set_source_language(*model.tokenizer, *language, ids);
  return ids;
}

}  // namespace

namespace routes {

Json tokenize(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  read_model(model, fields);
  if (fields.find("inputs") != nullptr) return tei_tokens(model, fields);
  const bool names_strings = fields.flag("return_token_strs").value_or(false);
  const bool has_pieces = fields.flag("with_pieces").value_or(false);
  const std::vector<std::int32_t> ids = ids_of(model, request.body, fields);
  Json reply = {{"tokens", ids}, {"count", ids.size()}, {"max_model_len", model.max_seq_len}};
  const Tokenizer& tokenizer = tokenizer_of(model, "prompt");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (names_strings) reply["token_strs"].push_back(tokenizer.piece(ids[i]));
    if (has_pieces) reply["tokens"][i] = {{"id", ids[i]}, {"piece", bytes_json(tokenizer.bytes(ids[i]))}};
  }
  return reply;
}

Json detokenize(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  read_model(model, fields);
  const Json* const tokens = fields.find("tokens");
  read_foreign(fields, kOfTokens);
  fields.finish();
  if (tokens == nullptr) throw RequestError(kInvalid, "tokens", "expected a list of ids, got none");
  const Tokenizer& tokenizer = tokenizer_of(model, "tokens");
  const std::string text = tokenizer.decode(read_ids(*tokens, "tokens", tokenizer.vocab_size()));
  return {{"prompt", text}, {"content", text}};
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
  RequestFields fields(json, "", model.unknown_fields);
  read_model(model, fields);
  const ChatFormat& format = chat_of(model);
  const RequestedChat chat = read_chat(model, request.body, fields);
  read_foreign(fields, kOfTokens);
  fields.finish();
  return {{"prompt", format.text(chat.conversation, chat.how)}};
}

}  // namespace routes

}  // namespace vitrine
