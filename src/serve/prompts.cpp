#include "serve/prompts.h"

#include <algorithm>

#include "base/nearest.h"
#include "serve/foreign_fields.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxMessages = 1 << 14;

/// Whether a list is one prompt: ids, and among them texts, as llama-server reads it.
bool is_one_prompt(const Json& list) {
  const auto is_id = [](const Json& each) { return each.is_number(); };
  const auto is_part = [](const Json& each) { return each.is_number() || each.is_string(); };
  return list.empty() ||
         (std::any_of(list.begin(), list.end(), is_id) && std::all_of(list.begin(), list.end(), is_part));
}

/// The ids of such a list. Special tokens are only added to a text that comes first.
std::vector<std::int32_t> mixed_ids(const ServedModel& model, const Json& list, const std::string& where,
                                    SpecialTokens policy) {
  const auto is_text = [](const Json& each) { return each.is_string(); };
  if (!list.is_array() || std::none_of(list.begin(), list.end(), is_text)) {
    return read_ids(list, where, model.vocab_size);
  }
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::vector<std::int32_t> own;
    if (is_text(list[i])) {
      const SpecialTokens within = i == 0 ? policy : SpecialTokens::written;
      own = tokenizer_of(model, where).encode(list[i].get_ref<const std::string&>(), within);
    } else {
      own = read_ids(Json::array({list[i]}), where, model.vocab_size);
    }
    ids.insert(ids.end(), own.begin(), own.end());
  }
  return ids;
}

Prompt prompt_of(const ServedModel& model, const Json& value, const std::string& where, SpecialTokens policy,
                 const Truncation& truncation, const SentenceConfig* sentences) {
  Prompt prompt;
  if (value.is_string()) {
    prompt.text = value.get<std::string>();
    const std::string text = sentences != nullptr ? sentences->prepared(*prompt.text) : *prompt.text;
    prompt.ids = or_bos(tokenizer_of(model, where).encode(text, policy), model.defaults);
    if (sentences != nullptr) prompt.ids = truncated(std::move(prompt.ids), *sentences);
  } else {
    prompt.ids = mixed_ids(model, value, where, policy);
  }
  if (truncation.applies_to(prompt.ids)) {
    prompt.ids = truncation.apply(std::move(prompt.ids));
    prompt.text.reset();
  }
  check_prompt(model, prompt.ids, where);
  return prompt;
}

}  // namespace

std::string text_of_part(const Json& json, const RequestFields& message, const std::string& name) {
  if (json.is_string()) return json.get<std::string>();
  RequestFields part = message.of(json, name);
  const std::string type = part.text("type").value_or("");
  if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal") {
    throw RequestError(kInvalid, part.name_of("type"), "expected \"text\", got \"{}\": the model reads text only",
                       type);
  }
  const char* const field = type == "refusal" ? "refusal" : "text";
  const auto text = part.text(field);
  if (!text) throw RequestError(kInvalid, part.name_of(field), "expected a string, got none");
  read_foreign(part, kOfPart);
  part.finish();
  return *text;
}

namespace {

/// The text of a message's content: a string, or parts.
std::string text_of(const Json& content, const RequestFields& message) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw wrong_type(message.name_of("content"), "a string or a list of parts", content);
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    text += (i > 0 ? "\n" : "") + text_of_part(content[i], message, fmt::format("content[{}]", i));
  }
  return text;
}

/// A call of a tool: its name, and its arguments as text or as an object.
OrderedJson function_of(RequestFields fields) {
  const auto name = fields.text("name");
  if (!name) throw RequestError(kInvalid, fields.name_of("name"), "expected a string, got none");
  OrderedJson function = {{"name", *name}};
  if (const Json* const arguments = fields.find("arguments")) {
    if (!arguments->is_string() && !arguments->is_object()) {
      throw wrong_type(fields.name_of("arguments"), "a string or an object", *arguments);
    }
    function["arguments"] = *arguments;
  }
  fields.finish();
  return function;
}

OrderedJson calls_of(const Json& list, const RequestFields& message) {
  if (!list.is_array()) throw wrong_type(message.name_of("tool_calls"), "a list of calls", list);
  OrderedJson calls = OrderedJson::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    RequestFields fields = message.of(list[i], fmt::format("tool_calls[{}]", i));
    const Json* const function = fields.find("function");
    if (function == nullptr) throw RequestError(kInvalid, fields.name_of("function"), "expected an object, got none");
    OrderedJson call = {{"function", function_of(fields.of(*function, "function"))}};
    if (const auto id = fields.text("id")) call["id"] = *id;
    fields.ignore({"type", "index", "extra_content"});
    fields.finish();
    calls.push_back(std::move(call));
  }
  return calls;
}

OrderedJson message_of(RequestFields fields) {
  const auto role = fields.text("role");
  if (!role) throw RequestError(kInvalid, fields.name_of("role"), "expected a string, got none");
  OrderedJson message = {{"role", *role}};
  if (const Json* const content = fields.find("content")) message["content"] = text_of(*content, fields);
  for (const char* name : {"name", "reasoning_content", "reasoning", "thinking", "tool_call_id"}) {
    if (const auto text = fields.text(name)) message[name] = *text;
  }
  if (const Json* const calls = fields.find("tool_calls")) {
    message["tool_calls"] = calls_of(*calls, fields);
  }
  if (const Json* const function = fields.find("function_call")) {
    message["function_call"] = function_of(fields.of(*function, "function_call"));
  }
  // A refusal is what the assistant said.
  if (const auto refusal = fields.text("refusal"); refusal && message.value("content", "").empty()) {
    message["content"] = *refusal;
  }
  read_foreign(fields, kOfMessage);
  fields.finish();
  return message;
}

OrderedJson read_messages(RequestFields& fields) {
  const Json* const list = fields.find("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    throw RequestError(kInvalid, "messages", "expected a list of at least one message");
  }
  if (list->size() > kMaxMessages) {
    throw RequestError(kInvalid, "messages", "expected at most {} messages, got {}", kMaxMessages, list->size());
  }
  OrderedJson messages = OrderedJson::array();
  for (std::size_t i = 0; i < list->size(); ++i) {
    messages.push_back(message_of(fields.of((*list)[i], fmt::format("messages[{}]", i))));
  }
  return messages;
}

/// `reasoning_effort` as the template reads it.
Json read_effort(const answer::AnswerFormat& format, RequestFields& fields) {
  constexpr const char* kEffort = "reasoning_effort";
  const auto effort = fields.text(kEffort);
  if (!effort) return Json::object();
  try {
    return effort_variables(format, *effort);
  } catch (const Unsupported&) {
    fields.fail(kEffort, "the chat template reads neither reasoning_effort nor a switch of its reasoning");
  }
}

/// The variables of the template that a request sets.
std::vector<std::pair<std::string, TemplateData>> read_variables(const answer::AnswerFormat& format,
                                                                 RequestFields& fields) {
  const std::vector<std::string>& known = format.variables;
  Json all = read_effort(format, fields);
  if (const Json* const given = fields.find("chat_template_kwargs")) {
    RequestFields own(*given, "chat_template_kwargs");
    for (const char* name : {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message",
                             "chat_template", "tokenize"}) {
      own.refuse(name, "expected a variable of the template; this is a field of the request");
    }
    for (const auto& [name, value] : given->items()) {
      if (std::ranges::find(known, name) == known.end()) {
        own.fail(name, "the chat template does not read this variable" + did_you_mean(name, known));
      }
      if (name != "reasoning_effort" || !all.contains(name)) all[name] = value;
    }
  }
  std::vector<std::pair<std::string, TemplateData>> variables;
  for (const auto& [name, value] : all.items()) {
    variables.emplace_back(name, TemplateData::parse(json_text(value), "chat_template_kwargs"));
  }
  return variables;
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

std::vector<Prompt> each_prompt(RequestFields& fields, std::string_view name, const PromptOf& prompt_of) {
  const Json* const value = fields.find(name);
  const std::string where = fields.name_of(name);
  if (value == nullptr) throw RequestError(kInvalid, where, "expected a text, ids, or a list of these, got none");
  const bool is_batch = value->is_array() && !is_one_prompt(*value);
  if (!is_batch) return {prompt_of(*value, where)};
  if (value->size() > kMaxTexts) {
    throw RequestError(kInvalid, where, "expected at most {} texts, got {}", kMaxTexts, value->size());
  }
  std::vector<Prompt> prompts;
  for (std::size_t i = 0; i < value->size(); ++i) {
    prompts.push_back(prompt_of((*value)[i], fmt::format("{}[{}]", where, i)));
  }
  return prompts;
}

std::vector<Prompt> read_prompts(const ServedModel& model, RequestFields& fields, std::string_view name,
                                 SpecialTokens policy, const Truncation& truncation, const SentenceConfig* sentences) {
  return each_prompt(fields, name, [&](const Json& value, const std::string& where) {
    return prompt_of(model, value, where, policy, truncation, sentences);
  });
}

std::vector<std::int32_t> Truncation::apply(std::vector<std::int32_t> ids) const {
  const std::ptrdiff_t n = std::min<std::ptrdiff_t>(most, std::ssize(ids));
  if (keeps_end) return {ids.end() - n, ids.end()};
  ids.resize(static_cast<std::size_t>(n));
  return ids;
}

Truncation read_truncation(RequestFields& fields, std::int64_t otherwise) {
  Truncation truncation;
  const std::string side = fields.text("truncation_side").value_or("left");
  if (side != "left" && side != "right") {
    throw RequestError(kInvalid, "truncation_side", "expected left or right, got \"{}\"", side);
  }
  truncation.keeps_end = side == "left";
  const auto most = fields.whole<std::int64_t>("truncate_prompt_tokens", -1);
  if (most) truncation.most = *most == -1 ? otherwise : *most;
  return truncation;
}

RequestedChat read_chat(const ServedModel& model, std::string_view body, RequestFields& fields) {
  RequestedChat chat;
  const auto asks = fields.flag("add_generation_prompt");
  chat.how.continues_last = fields.flag("continue_final_message").value_or(false);
  if (chat.how.continues_last && asks.value_or(false)) {
    throw RequestError(kInvalid, "continue_final_message", "expected \"add_generation_prompt\": false with it");
  }
  chat.how.asks_for_answer = asks.value_or(!chat.how.continues_last);
  chat.how.variables = read_variables(chat_of(model).answers(), fields);
  if (const Json* const documents = fields.find("documents")) {
    chat.how.documents = TemplateData::parse(json_text(*documents), "documents");
  }
  const OrderedJson messages = read_messages(fields);
  const OrderedJson& last = messages.back();
  const bool is_same_role = !chat.how.asks_for_answer || last["role"] == "assistant";
  if (is_same_role && last.contains("content")) chat.continued = last["content"].get<std::string>();
  chat.conversation = ChatHistory::parse(messages.dump(), "messages");
  chat.tools = read_tools(body, fields);
  chat.conversation.set_tools(chat.tools.shown);
  return chat;
}

}  // namespace vitrine
