#include "answer/learn.h"

#include <algorithm>

#include "answer/marks.h"
#include "answer/parse.h"
#include "base/error.h"

namespace vitrine::answer {
namespace {

/// What is written around a content.
void learn_content(Prober& prober, AnswerFormat& format) {
  const auto add_lead = [&](std::string_view lead) {
    if (format.reasoning) lead = after_last(lead, format.reasoning->end);
    const std::string text(stripped(lead));
    if (text.empty() || std::ranges::find(format.content_leads, text) != format.content_leads.end()) return;
    format.content_leads.push_back(text);
  };
  const std::string content(kContent);
  for (const bool reasons : {false, true}) {
    Probe probe{.content = content};
    if (reasons) probe.reasoning = std::string(kReasoning);
    const auto text = prober.answer(probe, {}, false);
    const std::size_t at = text ? text->find(content) : std::string::npos;
    if (at == std::string::npos) {  // contents are no texts: what is written is around them
      if (text && !reasons) format.content_end = *text;
      continue;
    }
    add_lead(std::string_view(*text).substr(0, at));
    if (!reasons) format.content_end = text->substr(at + content.size());
  }
  std::ranges::sort(format.content_leads, [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

/// Calls whose parsed text must be what was written.
const std::vector<std::vector<OrderedJson>>& trials() {
  static const std::vector<std::vector<OrderedJson>> kTrials = {
      {{{"city", "Paris"}, {"days", 2}}},
      {{{"on", false}, {"level", 12.25}, {"room", "kitchen"}}},
      {{{"path", "x/y.py"}, {"text", "print(\"1 < 2\")\n# \\ {}[]'\xE2\x82\xAC "}}},
      {{{"list", {"go", "come back"}}, {"options", {{"depth", 4}, {"note", "12"}, {"deep", {{"a", {1, {2, 3}}}}}}}}},
      {OrderedJson::object()},
      {{{"a", "12"}, {"b", "true"}, {"c", -7}, {"d", true}}},
      {{{"a", "x"}}, {{"b", 2}}},
      {{{"a", 1}}, OrderedJson::object(), {{"c", "z"}, {"d", {1, 2}}}},
  };
  return kTrials;
}

/// A schema that says the types of a value.
OrderedJson schema_of(const OrderedJson& value) {
  if (value.is_object()) {
    OrderedJson members = OrderedJson::object();
    for (const auto& [key, member] : value.items()) members[key] = schema_of(member);
    return {{"type", "object"}, {"properties", members}};
  }
  if (value.is_array()) {
    OrderedJson schema = {{"type", "array"}};
    const bool is_uniform = std::ranges::all_of(value, [&](const auto& v) { return v.type() == value[0].type(); });
    if (!value.empty() && is_uniform) schema["items"] = schema_of(value[0]);
    return schema;
  }
  return {{"type", value.is_string() ? "string" : value.is_boolean() ? "boolean" : "number"}};
}

/// Equal, but for the order of members.
bool same(const OrderedJson& a, const OrderedJson& b) { return Json::parse(a.dump()) == Json::parse(b.dump()); }

/// Throws BadInput if what the template writes is not read back.
void verify(Prober& prober, const AnswerFormat& format) {
  for (const std::vector<OrderedJson>& calls : trials()) {
    if (calls.size() > 1 && !format.calls->between) continue;
    OrderedJson tools = OrderedJson::array();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      tools.push_back(
          {{"type", "function"}, {"function", {{"name", probe_name(i)}, {"parameters", schema_of(calls[i])}}}});
    }
    for (const bool has_content : {false, true}) {
      Probe probe{.calls = calls};
      if (has_content) probe.content = std::string(kContent);
      const auto text = prober.answer(probe, format.calls->form, true);
      if (!text) throw BadInput("tools", "the chat template refuses calls: {}", prober.why());
      const ParsedAnswer read = parse_answer(format, *prober.prompt(true), *text, tools);
      bool is_same = read.calls.size() == calls.size();
      for (std::size_t i = 0; is_same && i < calls.size(); ++i) {
        is_same = read.calls[i].name == probe_name(i) && same(read.calls[i].arguments, calls[i]) &&
                  (read.calls[i].id.empty() || read.calls[i].id == probe_id(i));
      }
      if (!is_same) throw BadInput("tools", "calls that the chat template writes cannot be read back: {}", *text);
    }
  }
}

}  // namespace

bool CallFormat::has(CallPart::Kind kind) const {
  return std::ranges::any_of(parts, [&](const CallPart& part) { return part.kind == kind; });
}

AnswerFormat learn_format(TemplateSource source) {
  Prober prober(std::move(source));
  AnswerFormat format;
  const auto plain = prober.prompt(false), with_tools = prober.prompt(true);
  if (!plain) {
    format.reason = prober.why();
    return format;
  }
  for (const ChatTemplate* const parsed : {prober.source().plain, prober.source().with_tools}) {
    for (std::string& name : parsed->variables()) {
      if (std::ranges::find(format.variables, name) == format.variables.end()) format.variables.push_back(name);
    }
  }
  std::ranges::sort(format.variables);
  format.knows_developer = prober.source().text.find("developer") != std::string::npos;
  format.reads_tools = with_tools && with_tools->find(probe_name(0)) != std::string::npos;
  format.reasoning = learn_reasoning(prober, format.variables);
  learn_content(prober, format);
  try {
    format.calls = learn_calls(prober, format);
    verify(prober, format);
  } catch (const BadInput& e) {
    format.calls.reset();
    format.reason = e.what();
  }
  if (format.calls) {
    OrderedJson messages = probe_messages({.calls = {OrderedJson::object()}}, format.calls->form);
    messages.push_back(
        {{"role", "tool"}, {"tool_call_id", probe_id(0)}, {"name", probe_name(0)}, {"content", std::string(kContent)}});
    const auto text = prober.render(messages, true, true);
    format.writes_results = text && text->find(kContent) != std::string::npos;
  }
  return format;
}

}  // namespace vitrine::answer
