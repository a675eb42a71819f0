// Templates of all kinds, what is learned from them, and what published templates write.
#pragma once

#include <map>
#include <sstream>

#include "answer/learn.h"
#include "base/mapped_file.h"
#include "support/data.h"

namespace vitrine::test {

using answer::AnswerFormat;

inline AnswerFormat learned(const std::string& source) {
  const ChatTemplate parsed(source);
  return answer::learn_format({&parsed, &parsed, source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, {}});
}

/// A template that writes calls: what is before the calls, a call, what is between calls, what is after them.
inline std::string with_calls(const std::string& call, const std::string& before = "", const std::string& between = "",
                              const std::string& after = "") {
  return "{% for m in messages %}<|{{ m.role }}|>{% if m.content %}{{ m.content }}{% endif %}"
         "{% if m.tool_calls %}" +
         before + "{% for c in m.tool_calls %}{% set f = c.function %}{% if not loop.first %}" + between +
         "{% endif %}" + call + "{% endfor %}" + after +
         "{% endif %}<|end|>{% endfor %}{% if tools %}{{ tools[0].function.name[:0] }}{% endif %}"
         "{% if add_generation_prompt %}<|assistant|>{% endif %}";
}

inline OrderedJson tools() {
  return OrderedJson::parse(R"([
    {"type": "function", "function": {"name": "get", "parameters": {"type": "object",
      "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "on": {"type": "boolean"},
                     "list": {"type": "array", "items": {"type": "string"}}, "more": {"type": "object"}}}}},
    {"type": "function", "function": {"name": "get_all"}}])");
}

inline const std::string kHermes =
    with_calls("<tool_call>\n{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}\n</tool_call>", "",
               "{{ '\\n' }}");
inline const std::string kFields = with_calls(
    "<call>{{ f.name }}{% for k, v in f.arguments.items() %}<k>{{ k }}</k><v>{{ v if v is string else v | tojson }}</v>"
    "{% endfor %}</call>");
inline const std::string kKeyword = with_calls(
    "{{ f.name }}({% for k, v in f.arguments.items() %}{% if not loop.first %}, {% endif %}{{ k }}={{ v | tojson }}"
    "{% endfor %})",
    "<|calls|>[", ", ", "]<|/calls|>");
inline const std::string kNumbered = with_calls(
    "<c>functions.{{ f.name }}:{{ loop.index0 }}<a>{{ f.arguments | tojson }}</c>", "<calls>", "", "</calls>");
inline const std::string kIds =
    with_calls("{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}, \"id\": \"{{ c.id }}\"}",
               "[CALLS][", ", ", "]");

inline std::string thinking(const std::string& prompt) {
  return "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>\n{{ m.reasoning_content "
         "}}\n</think>\n\n"
         "{% elif m.role == 'assistant' and enable_thinking is defined and enable_thinking %}<think>\n\n</think>\n\n"
         "{% endif %}{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>" +
         prompt + "{% endif %}";
}

/// A text that a published template writes for an answer, and what it means.
struct PublishedAnswer {
  std::string name;
  const AnswerFormat* format;
  std::string prompt, text;
  OrderedJson tools, want;
};

struct PublishedAnswers {
  std::map<std::string, std::pair<ChatTemplate, AnswerFormat>> templates;
  std::vector<PublishedAnswer> answers;
};

inline PublishedAnswers read_published_answers(const std::string& path, const std::string& folder) {
  PublishedAnswers published;
  std::istringstream lines{std::string(MappedFile::open_or_read(path)->text())};
  std::string line;
  std::getline(lines, line);
  const OrderedJson shared = OrderedJson::parse(line);
  std::vector<std::pair<std::string, std::string>> special;
  for (const auto& [name, token] : shared["special"].items()) special.emplace_back(name, token);
  const TemplateData offered = TemplateData::parse(shared["tools"].dump(), "tools");
  auto& known = published.templates;
  while (std::getline(lines, line)) {
    const OrderedJson c = OrderedJson::parse(line);
    const std::string name = c["template"];
    if (!known.contains(name)) {
      const std::string source(MappedFile::open_or_read(folder + "/" + name + ".jinja")->text());
      const ChatTemplate chat_template(source);
      known.emplace(
          name, std::pair{chat_template, answer::learn_format({&chat_template, &chat_template, source, special, {}})});
    }
    const auto& [chat_template, format] = known.at(name);
    const bool has_tools = c["tools"];
    const TemplateData messages = TemplateData::parse(c["messages"].dump(), name);
    TemplateInput input;
    input.messages = &messages.value();
    if (has_tools) input.tools = &offered.value();
    input.add_generation_prompt = true;
    input.special_tokens = special;
    published.answers.push_back({name + " " + c["case"].get<std::string>(), &format, chat_template.render(input).text,
                                 c["parse"], has_tools ? shared["tools"] : OrderedJson(), c["want"]});
  }
  return published;
}

/// What 79 published templates write; null without the data.
inline const PublishedAnswers* published_answers() {
  static const std::string path = outside_data("agents/calls.jsonl"), folder = outside_data("tuning/templates");
  if (path.empty() || folder.empty()) return nullptr;
  static const PublishedAnswers kPublished = read_published_answers(path, folder);
  return &kPublished;
}

}  // namespace vitrine::test
