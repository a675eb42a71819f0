// Renders templates for tests.
#pragma once

#include <string>
#include <string_view>

#include "template/chat_template.h"
#include "template/value.h"

namespace vitrine {

/// The answer to a rendering: its text, or "kind: message" of its error.
struct Answer {
  std::string text, kind, message;
  std::vector<std::pair<std::int64_t, std::int64_t>> assistant, literal;
};

/// Renders a template with variables, a JSON object. "messages", "tools" and "documents" in it are the conversation.
inline Answer render(std::string_view source, std::string_view variables = "{}", const TemplateLimits& limits = {}) {
  const TemplateData data = TemplateData::parse(variables, "variables");
  const TemplateData none = TemplateData::parse("[]", "messages");
  TemplateInput input;
  input.messages = data.member("messages") != nullptr ? data.member("messages") : &none.value();
  input.tools = data.member("tools");
  input.documents = data.member("documents");
  input.now = TemplateClock::parse("2026-01-02T03:04:05");
  input.special_tokens = {{"bos_token", "<s>"}};
  input.reports_literal = true;
  for (const auto& [key, value] : data.value().dict->entries) {
    const std::string_view name = key.text();
    if (name != "messages" && name != "tools" && name != "documents") input.variables.emplace_back(name, &value);
  }
  try {
    RenderedTemplate rendered = ChatTemplate(source).render(input, limits);
    return {rendered.text, "", "", rendered.assistant, rendered.literal};
  } catch (const TemplateError& e) {
    return {"", e.kind(), e.message(), {}, {}};
  }
}

/// The parts of a rendering that the template wrote, divided by "|".
inline std::string literal_parts(const Answer& answer) {
  std::string parts;
  for (const auto& [begin, end] : answer.literal) {
    parts += (parts.empty() ? "" : "|") +
             answer.text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }
  return parts;
}

}  // namespace vitrine
