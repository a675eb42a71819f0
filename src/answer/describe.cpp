#include "answer/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "answer/marks.h"

namespace vitrine::answer {
namespace {

std::string_view name_of(ArgumentsFormat::Kind kind) {
  switch (kind) {
    case ArgumentsFormat::Kind::json:
      return "json";
    case ArgumentsFormat::Kind::fields:
      return "fields";
    default:
      return "values";
  }
}

/// The texts around calls: begin, a call, (separator, a call)…, end. A call is the JSON object that it is in, if it is
/// in one, else it begins with its first part that is not text.
struct Around {
  std::string begin, separator, end;
};

/// The number of bytes of the beginning of a JSON object at the end of `text`: {"name": ".
std::size_t open_object_size(std::string_view text) {
  const std::size_t at = text.rfind('{');
  if (at == text.npos) return 0;
  const std::string_view object = text.substr(at);
  const auto is_json = [](char c) { return c == '{' || c == '"' || c == ':' || c == '_' || c == ' ' || c == '\n'; };
  const bool fits = std::ranges::all_of(
      object, [&](char c) { return is_json(c) || std::isalnum(static_cast<unsigned char>(c)) != 0; });
  return fits && object.find('"') != object.npos ? object.size() : 0;
}

/// What ends the calls, without what ends the answer.
std::string end_of_calls(const CallFormat& calls, std::string_view content_end) {
  std::string_view end = calls.end;
  if (!content_end.empty() && end.ends_with(content_end)) {
    end.remove_suffix(content_end.size());
  } else if (end.size() > calls.closing.size()) {
    end = stripped(end);
    end.remove_suffix(last_mark(end).size());
  }
  return std::string(right_stripped(end));
}

Around around(const CallFormat& calls, std::string_view content_end) {
  const std::string& begin = calls.begins.back();
  const std::size_t object = open_object_size(begin);
  const auto closed = [&](std::string_view text) {
    const std::size_t brace = object > 0 ? text.find('}') : text.npos;
    return std::string(brace == text.npos ? text : text.substr(brace + 1));
  };
  std::string between = closed(calls.between.value_or(""));
  if (between.size() >= object) between.resize(between.size() - object);
  return {begin.substr(0, begin.size() - object), between, closed(end_of_calls(calls, content_end))};
}

OrderedJson calls_json(const CallFormat& calls, std::string_view content_end) {
  const auto place = [&](CallPart::Kind kind) {
    return std::ranges::find(calls.parts, kind, &CallPart::kind) - calls.parts.begin();
  };
  const Around texts = around(calls, content_end);
  return {{"begin", texts.begin},
          {"end", texts.end},
          {"separator", texts.separator},
          {"arguments", name_of(calls.arguments.kind)},
          {"name_first", place(CallPart::Kind::name) < place(CallPart::Kind::arguments)},
          {"ids", calls.has(CallPart::Kind::id)},
          {"several", calls.between.has_value()},
          {"example", calls.example}};
}

}  // namespace

OrderedJson formats_json(const AnswerFormat& format) {
  OrderedJson tools = {{"reads", format.reads_tools},
                       {"calls", format.calls ? calls_json(*format.calls, format.content_end) : OrderedJson()},
                       {"results", format.writes_results},
                       {"reason", format.reason.empty() ? OrderedJson() : OrderedJson(format.reason)}};
  OrderedJson reasoning;
  if (format.reasoning) {
    reasoning = {{"begin", format.reasoning->begin},
                 {"end", format.reasoning->end},
                 {"opens", format.reasoning->opens_in_prompt ? "prompt" : "answer"},
                 {"variables", format.reasoning->variables}};
  }
  return {{"tools", std::move(tools)}, {"reasoning", std::move(reasoning)}, {"variables", format.variables}};
}

OrderedJson message_json(const ParsedAnswer& answer) {
  OrderedJson message = {{"role", "assistant"}, {"content", answer.content}};
  if (answer.reasoning) message["reasoning_content"] = *answer.reasoning;
  std::size_t number = 0;
  for (const ToolCall& call : answer.calls) {
    const std::string id = call.id.empty() ? fmt::format("call_{:024}", number) : call.id;
    ++number;
    message["tool_calls"].push_back(
        {{"id", id},
         {"type", "function"},
         {"function",
          {{"name", call.name},
           {"arguments", call.arguments.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)}}}});
  }
  return message;
}

}  // namespace vitrine::answer
