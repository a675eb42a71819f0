#include "serve/prompts.h"

#include <algorithm>

#include "base/nearest.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxMessages = 1 << 14;

Prompt prompt_of(const ServedModel& model, const Json& value, const std::string& where, SpecialTokens policy,
                 const SentenceConfig* sentences) {
  Prompt prompt;
  if (value.is_string()) {
    prompt.text = value.get<std::string>();
    const std::string text = sentences != nullptr ? sentences->prepared(*prompt.text) : *prompt.text;
    prompt.ids = or_bos(tokenizer_of(model, where).encode(text, policy), model.defaults);
    const bool is_short = sentences != nullptr && sentences->max_tokens < model.max_seq_len;  // by the folder's choice
    if (is_short) prompt.ids = truncated(std::move(prompt.ids), *sentences);
  } else {
    prompt.ids = read_ids(value, where, model.vocab_size);
  }
  check_prompt(model, prompt.ids, where);
  return prompt;
}

/// The text of a message's content: a string, or parts.
std::string text_of(const Json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw wrong_type(where, "a string or a list of parts", content);
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    RequestFields part(content[i], fmt::format("{}[{}]", where, i));
    const std::string type = part.text("type").value_or("");
    if (type != "text") {
      throw RequestError(kInvalid, part.name_of("type"), "expected \"text\", got \"{}\": the model reads text only",
                         type);
    }
    const auto own = part.text("text");
    if (!own) throw RequestError(kInvalid, part.name_of("text"), "expected a string, got none");
    part.finish();
    text += (i > 0 ? "\n" : "") + *own;
  }
  return text;
}

OrderedJson message_of(const Json& json, const std::string& where) {
  RequestFields fields(json, where);
  const auto role = fields.text("role");
  if (!role) throw RequestError(kInvalid, fields.name_of("role"), "expected a string, got none");
  OrderedJson message = {{"role", *role}};
  if (const Json* const content = fields.find("content"))
    message["content"] = text_of(*content, fields.name_of("content"));
  for (const char* name : {"name", "reasoning_content"}) {
    if (const auto text = fields.text(name)) message[name] = *text;
  }
  for (const char* name : {"tool_calls", "tool_call_id", "function_call"})
    fields.refuse(name, "tools are not supported");
  fields.refuse("audio", "the model reads text only");
  fields.ignore({"refusal", "annotations"});
  fields.finish();
  return message;
}

}  // namespace

const Tokenizer& tokenizer_of(const ServedModel& model, const std::string& where) {
  if (model.tokenizer == nullptr) throw RequestError(kInvalid, where, "the model has no tokenizer; give ids");
  return *model.tokenizer;
}

const ChatFormat& chat_of(const ServedModel& model) {
  if (model.chat == nullptr) {
    throw RequestError(kInvalid, "messages",
                       "the model has no chat template; use /v1/completions, or give the server one with --template");
  }
  return *model.chat;
}

void require_generation(const ServedModel& model) {
  if (!model.can_generate)
    throw RequestError(kInvalid, "model", "the model does not continue texts; use /v1/embeddings");
}

void check_prompt(const ServedModel& model, std::span<const std::int32_t> ids, const std::string& where) {
  if (ids.empty()) throw RequestError(kInvalid, where, "expected at least one token, got none");
  if (std::ssize(ids) > model.max_seq_len) {
    throw RequestError(kTooLong, where, "the prompt has {} tokens, the model's context is {}", ids.size(),
                       model.max_seq_len);
  }
  if (model.model != nullptr) model.model->refuse_placeholders(ids);
  for (const std::int32_t id : ids) {  // a tokenizer may have more ids than the model
    if (id < model.vocab_size) continue;
    throw RequestError(kInvalid, where, "the tokenizer's id {} exceeds the model's vocabulary of {}", id,
                       model.vocab_size);
  }
}

std::string read_model_name(const ServedModel& model, RequestFields& fields) {
  const auto name = fields.text("model");
  if (!name) return model.names.front();
  if (std::find(model.names.begin(), model.names.end(), *name) == model.names.end()) {
    throw RequestError(kUnknownModel, "model", "the model \"{}\" does not exist{}", *name,
                       did_you_mean(*name, model.names));
  }
  return *name;
}

std::vector<Prompt> read_prompts(const ServedModel& model, RequestFields& fields, std::string_view name,
                                 SpecialTokens policy, const SentenceConfig* sentences) {
  const Json* const value = fields.find(name);
  const std::string where = fields.name_of(name);
  if (value == nullptr) throw RequestError(kInvalid, where, "expected a text, ids, or a list of these, got none");
  const bool is_batch = value->is_array() && !value->empty() && !value->front().is_number();
  if (!is_batch) return {prompt_of(model, *value, where, policy, sentences)};
  if (value->size() > kMaxTexts) {
    throw RequestError(kInvalid, where, "expected at most {} texts, got {}", kMaxTexts, value->size());
  }
  std::vector<Prompt> prompts;
  for (std::size_t i = 0; i < value->size(); ++i) {
    prompts.push_back(prompt_of(model, (*value)[i], fmt::format("{}[{}]", where, i), policy, sentences));
  }
  return prompts;
}

ChatHistory read_messages(RequestFields& fields) {
  const Json* const list = fields.find("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    throw RequestError(kInvalid, "messages", "expected a list of at least one message");
  }
  if (list->size() > kMaxMessages) {
    throw RequestError(kInvalid, "messages", "expected at most {} messages, got {}", kMaxMessages, list->size());
  }
  OrderedJson messages = OrderedJson::array();
  for (std::size_t i = 0; i < list->size(); ++i) {
    messages.push_back(message_of((*list)[i], fmt::format("messages[{}]", i)));
  }
  return ChatHistory::parse(messages.dump(), "messages");
}

}  // namespace vitrine
