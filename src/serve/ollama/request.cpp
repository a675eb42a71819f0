#include "serve/ollama/request.h"

#include <algorithm>

#include "serve/modifier_fields.h"
#include "serve/prompts.h"

namespace vitrine::ollama {
namespace {

constexpr std::string_view kTag = ":latest";

bool has_variable(const ServedModel& model, std::string_view name) {
  return model.chat != nullptr && std::ranges::count(model.chat->answers().variables, name) > 0;
}

/// Ollama's `options`, most of which have the names of a chat.
void add_options(const ServedModel& model, RequestFields& fields, const OrderedJson& given, OrderedJson& body) {
  const Json* const value = fields.find("options");
  if (value == nullptr) return;
  RequestFields options = fields.of(*value, "options");
  for (const char* const name : {"temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "stop",
                                 "repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty"}) {
    if (options.find(name) != nullptr) body[name] = given["options"][name];
  }
  const auto most = options.whole<std::int64_t>("num_predict", -2);
  if (most) body["max_tokens"] = std::max<std::int64_t>(*most, -1);
  const auto context = options.whole<std::int64_t>("num_ctx", 0);
  if (context && *context > model.max_seq_len) {
    options.fail("num_ctx", fmt::format("the model's context is {}, got {}", model.max_seq_len, *context));
  }
  options.refuse("mirostat", "is not supported", {0});
  options.refuse("tfs_z", "is not supported", {1});
  options.ignore({"mirostat_tau", "mirostat_eta", "penalize_newline", "num_keep", "num_batch", "num_gpu", "main_gpu",
                  "num_thread", "numa", "use_mmap", "use_mlock", "low_vram", "f16_kv", "logits_all", "vocab_only",
                  "embedding_only"});
  options.finish();
}

/// `"json"` or a schema.
void add_format(RequestFields& fields, const OrderedJson& given, OrderedJson& body) {
  const Json* const format = fields.find("format");
  if (format == nullptr || *format == "") return;
  if (*format == "json") {
    body["response_format"] = {{"type", "json_object"}};
  } else if (format->is_object()) {
    body["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"schema", given["format"]}}}};
  } else {
    fields.fail("format", "expected \"json\" or a JSON Schema");
  }
}

/// Of a chat the template's switch and its effort; without a switch a reasoning of none is one with a budget of none.
void add_thinking(const ServedModel& model, const std::string& name, RequestFields& fields, OrderedJson& chat) {
  const Json* const think = fields.find("think");
  if (think == nullptr) return;
  const bool is_level = *think == "low" || *think == "medium" || *think == "high";
  if (!is_level && !think->is_boolean()) fields.fail("think", "expected true, false, low, medium or high");
  const bool is_off = *think == false;
  bool can_think = model.chat != nullptr && model.chat->answers().reasoning;
  if (is_off) chat["thinking_budget"] = 0;
  for (const char* const variable : {"enable_thinking", "thinking"}) {
    if (!has_variable(model, variable)) continue;
    chat["chat_template_kwargs"][variable] = !is_off;
    can_think = true;
  }
  if (has_variable(model, "reasoning_effort")) {
    if (is_level) chat["reasoning_effort"] = think->get<std::string>();
    can_think = true;
  }
  if (!can_think && !is_off) fields.fail("think", fmt::format("\"{}\" does not support thinking", name));
}

/// A request for a text while it is read: the fields that both kinds have.
struct TextFields {
  TextFields(const ServedModel& served, std::string_view text)
      : model(served),
        json(parse_body(text)),
        given(OrderedJson::parse(text)),
        fields(json, "", served.unknown_fields) {
    const ModelName name = read_name(model, fields);
    request.model = name.asked;
    body["model"] = name.own;
    body["stream"] = fields.flag("stream").value_or(true);
    add_options(model, fields, given, body);
    add_format(fields, given, body);
    fields.ignore({"keep_alive", "truncate", "shift"});
    fields.refuse("images", "the model reads text only");
  }

  TextRequest take() {
    const bool reports = fields.flag("logprobs").value_or(false);
    const int n = fields.whole<int>("top_logprobs", 0).value_or(0);
    if (reports && request.is_chat) body["top_logprobs"] = n;
    if (reports) body["logprobs"] = request.is_chat ? OrderedJson(true) : OrderedJson(n);
    fields.finish();
    request.body = json_text(body);
    return std::move(request);
  }

  const ServedModel& model;
  const Json json;
  const OrderedJson given;  // with the order of its members
  RequestFields fields;
  TextRequest request{};
  OrderedJson body = OrderedJson::object();
};

/// The fields that a prompt as it is does not have.
void refuse_of_prompt(TextFields& text, const char* why) {
  text.fields.refuse("system", why);
  text.fields.refuse("context", why);
  text.fields.refuse("think", why);
}

/// The prompt is a message of the user.
void make_chat(const std::string& prompt, TextFields& text) {
  OrderedJson& messages = text.body["messages"] = OrderedJson::array();
  const std::string system = text.fields.text("system").value_or("");
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  add_thinking(text.model, text.request.model, text.fields, text.body);
}

/// The prompt is what comes before the text, which has no limit unless the checkpoint or the client sets one.
void make_completion(const std::string& prompt, const std::string& suffix, bool is_raw, TextFields& text) {
  text.body["prompt"] = prompt;
  if (!suffix.empty()) text.body["suffix"] = suffix;
  const SearchDefaults& search = text.model.defaults.search;
  const bool is_limited = search.max_new_tokens || search.max_length;
  if (!is_limited && !text.body.contains("max_tokens")) text.body["max_tokens"] = -1;
  if (is_raw || !suffix.empty()) {
    refuse_of_prompt(text, is_raw ? "expected none with raw" : "expected none with suffix");
  } else {
    text.fields.refuse("system", "the model has no chat template");
    OrderedJson unused;
    add_thinking(text.model, text.request.model, text.fields, unused);
    if (!text.request.context.empty()) text.body["add_special_tokens"] = false;  // they begin the context
  }
}

/// Only the model's own template changes nothing.
void check_template(TextFields& text) {
  const auto given = text.fields.text("template");
  if (!given || given->empty()) return;
  const bool is_own = text.model.chat != nullptr && *given == text.model.templates.choose(false, "model");
  if (!is_own) text.fields.fail("template", "is not supported: the server has --template FILE");
}

}  // namespace

ModelName read_name(const ServedModel& model, RequestFields& fields) {
  const auto by_model = fields.text("model"), by_name = fields.text("name");
  ModelName name{by_model.value_or(""), ""};
  if (name.asked.empty()) name.asked = by_name.value_or("");
  if (name.asked.empty()) name.asked = model.names.front();
  const bool has_tag = name.asked.ends_with(kTag);
  const std::string other =
      has_tag ? name.asked.substr(0, name.asked.size() - kTag.size()) : name.asked + std::string(kTag);
  for (const std::string& known : {name.asked, other}) {
    if (!find_model(model, known)) continue;
    name.own = known;
    return name;
  }
  throw RequestError(kUnknownModel, std::runtime_error(fmt::format("model \"{}\" not found", name.asked)));
}

TextRequest read_chat(const ServedModel& model, std::string_view body) {
  TextFields text(model, body);
  text.request.has_message = text.request.is_chat = true;
  OrderedJson messages = messages_of(text.fields, text.given);
  text.request.only_loads = messages.empty();
  if (!messages.empty() && messages.back()["role"] == "assistant") {
    if (messages.back().contains("tool_calls")) {
      text.fields.fail("messages", "expected the results of the last message's calls after it");
    }
    text.body["continue_final_message"] = true;
    text.body["add_generation_prompt"] = false;
  }
  text.body["messages"] = std::move(messages);
  if (text.fields.find("tools") != nullptr) text.body["tools"] = text.given["tools"];
  add_thinking(model, text.request.model, text.fields, text.body);
  return text.take();
}

TextRequest read_generate(const ServedModel& model, std::string_view body) {
  TextFields text(model, body);
  const std::string prompt = text.fields.text("prompt").value_or(""), suffix = text.fields.text("suffix").value_or("");
  const bool is_raw = text.fields.flag("raw").value_or(false);
  text.request.only_loads = prompt.empty() && suffix.empty();
  text.request.is_chat = !is_raw && suffix.empty() && model.chat != nullptr;
  text.request.returns_context = !is_raw;
  if (const Json* const context = text.fields.find("context")) {
    text.request.context = read_ids(*context, "context", model.vocab_size);
  }
  if (is_raw) text.fields.refuse("template", "expected none with raw");
  check_template(text);
  for (const char* const name : {"width", "height", "steps"}) {
    text.fields.refuse(name, "the model makes no images", {0});
  }
  if (text.request.is_chat) {
    make_chat(prompt, text);
  } else {
    make_completion(prompt, suffix, is_raw, text);
  }
  return text.take();
}

CompletionRequest parse(const ServedModel& model, const TextRequest& request, std::uint64_t seed) {
  CompletionRequest parsed =
      request.is_chat ? parse_chat(model, request.body, seed) : parse_completion(model, request.body, seed);
  if (request.context.empty()) return parsed;
  std::vector<std::int32_t>& ids = parsed.prompts.front().ids;
  if (ids.front() == model.defaults.bos) ids.erase(ids.begin());  // the context has it
  ids.insert(ids.begin(), request.context.begin(), request.context.end());
  check_prompt(model, ids, "context");
  return parsed;
}

}  // namespace vitrine::ollama
