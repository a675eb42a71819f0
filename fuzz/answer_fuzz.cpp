// Answers: the first line chooses a template, the rest is what a model wrote. A call that is read has the name of a
// tool and arguments that can be written, and reading the same text twice gives the same. In pieces it is the same as
// whole, and where no call was handed out before it was whole, what parse_answer() finds.
#include <algorithm>

#include "answer/describe.h"
#include "answer/learn.h"
#include "answer/parse.h"
#include "answer/reader.h"
#include "fuzzing.h"

using namespace vitrine;

namespace {

std::string with_calls(const std::string& call, const std::string& before, const std::string& between,
                       const std::string& after) {
  return "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
         "{% endif %}{{ m.content or '' }}{% if m.tool_calls %}" +
         before + "{% for c in m.tool_calls %}{% set f = c.function %}{% if not loop.first %}" + between +
         "{% endif %}" + call + "{% endfor %}" + after +
         "{% endif %}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
}

/// Formats of all kinds: JSON, fields, values in values.
const std::vector<answer::AnswerFormat>& formats() {
  static const std::vector<answer::AnswerFormat> kFormats = [] {
    const std::string sources[] = {
        with_calls("{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}, \"id\": \"{{ c.id }}\"}",
                   "[C][", ", ", "]"),
        with_calls("<call>{{ f.name }}{% for k, v in f.arguments.items() %}<k>{{ k }}</k><v>"
                   "{{ v if v is string else v | tojson }}</v>{% endfor %}</call>",
                   "", "", ""),
        "{% macro w(v) %}{% if v is string %}<q>{{ v }}<q>{% elif v is mapping %}{{ '{' }}{% for k, x in v.items() %}"
        "{{ k }}:{{ w(x) }}{% if not loop.last %},{% endif %}{% endfor %}{{ '}' }}{% elif v is iterable %}["
        "{% for x in v %}{{ w(x) }}{% if not loop.last %},{% endif %}{% endfor %}]{% else %}{{ v | tojson }}{% endif %}"
        "{% endmacro %}" +
            with_calls("<call>{{ f.name }}{{ w(f.arguments) }}</call>", "", "", "")};
    std::vector<answer::AnswerFormat> made;
    for (const std::string& source : sources) {
      const ChatTemplate parsed(source);
      made.push_back(answer::learn_format({&parsed, &parsed, source, {}, {}}));
      fuzz::expect(made.back().calls.has_value(), "the template is learned");
    }
    return made;
  }();
  return kFormats;
}

bool is_inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Reads a text in pieces of about `size` bytes that do not divide characters.
answer::AnswerDelta read_in_pieces(const answer::AnswerFormat& format, std::string_view text, std::size_t size,
                                   const OrderedJson& tools) {
  answer::AnswerReader reader(format, "<|assistant|>", tools);
  while (!text.empty()) {
    std::size_t n = std::min(size, text.size());
    while (n < text.size() && is_inside_character(text[n])) ++n;
    reader.append(text.substr(0, n));
    text.remove_prefix(n);
  }
  reader.finish();
  return reader.answer();
}

void expect_same_in_pieces(const answer::AnswerFormat& format, std::string_view text, const OrderedJson& tools,
                           const answer::ParsedAnswer& parsed) {
  const answer::AnswerDelta whole = read_in_pieces(format, text, text.size(), tools);
  const bool is_utf8 = OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::ignore) ==
                       OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  for (const std::size_t size : {std::size_t{1}, 1 + text.size() % 7}) {
    const answer::AnswerDelta pieces = read_in_pieces(format, text, size, tools);
    fuzz::expect(pieces.content == whole.content && pieces.reasoning == whole.reasoning,
                 "pieces have the same content");
    fuzz::expect(pieces.calls.size() == whole.calls.size(), "pieces have the same calls");
    for (std::size_t i = 0; i < whole.calls.size(); ++i) {
      const auto &a = pieces.calls[i], &b = whole.calls[i];
      fuzz::expect(a.name == b.name && a.id == b.id, "pieces have the same names");
      // A broken character becomes one replacement or several.
      fuzz::expect(a.arguments == b.arguments || !is_utf8, "pieces have the same arguments");
    }
  }
  fuzz::expect(!whole.calls.empty() || parsed.calls.empty(), "what is a call when whole is a call in pieces");
  if (!whole.calls.empty()) return;
  fuzz::expect(whole.content == parsed.content, "the content is the same");
  fuzz::expect(whole.reasoning == parsed.reasoning.value_or(""), "the reasoning is the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const OrderedJson tools = OrderedJson::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"properties": {
            "s": {"type": "string"}, "n": {"type": "number"}, "l": {"type": "array", "items": {"type": "string"}},
            "o": {"type": "object"}}}}}, {"type": "function", "function": {"name": "ff"}}])");
  return fuzz::answer([&] {
    if (size == 0) return;
    const answer::AnswerFormat& format = formats()[data[0] % formats().size()];
    const std::string_view text = fuzz::text_of(data + 1, size - 1);
    const answer::ParsedAnswer read = answer::parse_answer(format, "<|assistant|>", text, tools);
    for (const answer::ToolCall& call : read.calls) {
      fuzz::expect(call.name == "f" || call.name == "ff", "a call has the name of a tool");
      fuzz::expect(call.arguments.is_object(), "arguments are an object");
    }
    const auto again = answer::parse_answer(format, "<|assistant|>", text, tools);
    fuzz::expect(answer::message_json(again).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) ==
                     answer::message_json(read).dump(-1, ' ', false, OrderedJson::error_handler_t::replace),
                 "the same text is the same message");
    expect_same_in_pieces(format, text, tools, read);
  });
}
