#include "answer/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "answer/probe.h"

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

/// A call begins and ends with what is written for every call; what is written once is around the calls.
struct Around {
  std::string begin, separator, end;
};

Around around(const CallFormat& calls) {
  const std::string& begin = calls.begins.back();
  if (!calls.between) return {begin, "", calls.closing};
  const std::string& between = *calls.between;
  // What every call begins with ends both; what every call ends with begins both.
  std::size_t own = static_cast<std::size_t>(
      std::mismatch(begin.rbegin(), begin.rend(), between.rbegin(), between.rend()).first - begin.rbegin());
  std::size_t cut = begin.size() - own;
  const std::size_t boundary = mark_boundary(begin, cut);
  if (boundary < cut) cut = boundary + std::max(mark_end(std::string_view(begin).substr(boundary)), cut - boundary);
  own = begin.size() - cut;
  std::size_t last = static_cast<std::size_t>(
      std::ranges::mismatch(calls.end, between).in1 - calls.end.begin());
  last = mark_boundary(between, std::min(last, between.size() - own));
  const std::string end = calls.end.substr(std::min(last, calls.end.size()));
  const std::size_t whole = calls.closing.size() > last ? calls.closing.size() - last : 0;
  return {begin.substr(0, cut), between.substr(last, between.size() - own - last), end.substr(0, whole)};
}

OrderedJson calls_json(const CallFormat& calls) {
  const auto place = [&](Part::Kind kind) {
    return std::ranges::find(calls.parts, kind, &Part::kind) - calls.parts.begin();
  };
  const Around texts = around(calls);
  return {{"begin", texts.begin},
          {"end", texts.end},
          {"separator", texts.separator},
          {"arguments", name_of(calls.arguments.kind)},
          {"name_first", place(Part::Kind::name) < place(Part::Kind::arguments)},
          {"ids", calls.has(Part::Kind::id)},
          {"several", calls.between.has_value()},
          {"example", calls.example}};
}

}  // namespace

OrderedJson formats_json(const AnswerFormat& format) {
  OrderedJson tools = {{"reads", format.reads_tools},
                       {"calls", format.calls ? calls_json(*format.calls) : OrderedJson()},
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

OrderedJson message_json(const Answer& answer) {
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
