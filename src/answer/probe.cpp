#include "answer/probe.h"

#include <algorithm>

#include "template/error.h"

namespace vitrine::answer {
namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";
constexpr std::size_t kMaxMark = 64;
/// A template is a program, and it is rendered some hundred times.
constexpr TemplateLimits kLimits = {200'000, std::size_t{32} << 20, std::size_t{1} << 20};
constexpr std::string_view kOpening = "<[", kClosing = ">]";

OrderedJson question() {
  OrderedJson messages = OrderedJson::array();
  messages.push_back({{"role", "user"}, {"content", "A question."}});
  return messages;
}

bool is_closing(char opening, char c) { return c == kClosing[kOpening.find(opening)]; }

}  // namespace

std::string probe_name(std::size_t i) { return "vqtool" + std::string(1, static_cast<char>('a' + i)); }
std::string probe_id(std::size_t i) { return "vqid0000" + std::string(1, static_cast<char>('a' + i)); }

std::string_view left_stripped(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}

std::string_view stripped(std::string_view text) {
  text = left_stripped(text);
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

std::size_t mark_end(std::string_view text) {
  if (text.empty() || kOpening.find(text[0]) == kOpening.npos) return 0;
  for (std::size_t i = 1; i < std::min(text.size(), kMaxMark); ++i) {
    if (is_closing(text[0], text[i])) return i + 1;
    if (kSpace.find(text[i]) != kSpace.npos || text[i] == text[0] || text[i] == '{') return 0;
  }
  return 0;
}

std::string_view last_mark(std::string_view text) {
  text = stripped(text);
  for (std::size_t size = 2; size <= std::min(text.size(), kMaxMark); ++size) {
    const std::string_view end = text.substr(text.size() - size);
    if (mark_end(end) == size) return end;
  }
  return {};
}

std::size_t mark_boundary(std::string_view text, std::size_t at) {
  for (std::size_t i = at; i-- > 0 && at - i < kMaxMark;) {
    const std::size_t size = mark_end(text.substr(i));
    if (size > at - i) return i;
  }
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

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
