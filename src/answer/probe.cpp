#include "answer/probe.h"

#include <algorithm>

#include "answer/marks.h"
#include "template/error.h"

namespace vitrine::answer {
namespace {

/// A template is a program, and it is rendered some hundred times.
constexpr TemplateLimits kLimits = {200'000, std::size_t{32} << 20, std::size_t{1} << 20};

OrderedJson question() {
  OrderedJson messages = OrderedJson::array();
  messages.push_back({{"role", "user"}, {"content", "A question."}});
  return messages;
}

}  // namespace

std::string probe_name(std::size_t i) { return "vqtool" + std::string(1, static_cast<char>('a' + i)); }
std::string probe_id(std::size_t i) { return "vqid0000" + std::string(1, static_cast<char>('a' + i)); }

std::string_view added_text(std::string_view prompt, std::string_view text) {
  if (text.starts_with(prompt)) return text.substr(prompt.size());
  const auto different = std::mismatch(prompt.begin(), prompt.end(), text.begin(), text.end()).second;
  const auto at = static_cast<std::size_t>(different - text.begin());
  return text.substr(std::min(mark_boundary(text, at), mark_boundary(prompt, at)));
}

OrderedJson probe_messages(const Probe& probe, const MessageForm& form) {
  OrderedJson answer = {{"role", "assistant"}};
  answer["content"] = probe.content           ? OrderedJson(*probe.content)
                      : form.has_null_content ? OrderedJson()
                                              : OrderedJson("");
  if (probe.reasoning) answer["reasoning_content"] = *probe.reasoning;
  for (std::size_t i = 0; i < probe.calls.size(); ++i) {
    const OrderedJson& arguments = probe.calls[i];
    answer["tool_calls"].push_back(
        {{"id", probe_id(i)},
         {"type", "function"},
         {"function",
          {{"name", probe_name(i)},
           {"arguments", form.has_text_arguments ? OrderedJson(arguments.dump()) : arguments}}}});
  }
  OrderedJson messages = question();
  messages.push_back(std::move(answer));
  return messages;
}

OrderedJson probe_tools() {
  OrderedJson tools = OrderedJson::array();
  for (std::size_t i = 0; i < 3; ++i) {
    const OrderedJson parameters = {{"type", "object"}, {"properties", OrderedJson::object()}};
    tools.push_back({{"type", "function"},
                     {"function", {{"name", probe_name(i)}, {"description", "A tool."}, {"parameters", parameters}}}});
  }
  return tools;
}

Prober::Prober(TemplateSource source) : source_(std::move(source)) {
  // Templates fail at special tokens that nobody has given: those of a file without a model.
  for (const ChatTemplate* const parsed : {source_.plain, source_.with_tools}) {
    for (const std::string& name : parsed->variables()) {
      const auto is_name = [&](const auto& token) { return token.first == name; };
      if (!name.ends_with("_token") || std::ranges::any_of(source_.special_tokens, is_name)) continue;
      source_.special_tokens.emplace_back(name, name == "bos_token" ? "<s>" : name == "eos_token" ? "</s>" : "<unk>");
    }
  }
  if (!prompt(false)) {
    needs_tools_ = true;
    prompts_[0].reset();
  }
}

std::optional<std::string> Prober::render(const OrderedJson& messages, bool has_tools, bool asks_for_answer,
                                          const OrderedJson& variables) {
  has_tools = has_tools || needs_tools_;
  if (reached_limit_) return std::nullopt;
  try {
    const TemplateData data = TemplateData::parse(messages.dump(), "messages");
    const TemplateData tools = TemplateData::parse(probe_tools().dump(), "tools");
    std::vector<TemplateData> values;
    for (const auto& [name, value] : variables.items()) values.push_back(TemplateData::parse(value.dump(), name));
    TemplateInput input;
    std::size_t next = 0;
    for (const auto& [name, value] : variables.items()) input.variables.emplace_back(name, &values[next++].value());
    input.messages = &data.value();
    if (has_tools) input.tools = &tools.value();
    input.add_generation_prompt = asks_for_answer;
    input.special_tokens = source_.special_tokens;
    input.now = source_.now;
    return (has_tools ? source_.with_tools : source_.plain)->render(input, kLimits).text;
  } catch (const TemplateError& e) {
    why_ = e.what();
    reached_limit_ = e.kind() == "limit";
  } catch (const BadInput& e) {
    why_ = e.what();
  }
  return std::nullopt;
}

std::optional<std::string> Prober::prompt(bool has_tools) {
  std::optional<std::string>& known = prompts_[has_tools ? 1 : 0];
  if (!known) {
    known = render(question(), has_tools, true);
  }
  return known;
}

std::optional<std::string> Prober::prompt_with(std::string_view variable, const OrderedJson& value) {
  return render(question(), false, true, {{std::string(variable), value}});
}

std::optional<std::string> Prober::answer(const Probe& probe, const MessageForm& form, bool has_tools) {
  const std::optional<std::string> before = prompt(has_tools);
  if (!before) return std::nullopt;
  const std::optional<std::string> all = render(probe_messages(probe, form), has_tools, false);
  if (!all) return std::nullopt;
  return std::string(added_text(*before, *all));
}

}  // namespace vitrine::answer
