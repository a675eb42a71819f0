#include "answer/parse.h"

#include <algorithm>

#include "answer/call_reader.h"
#include "answer/content.h"

namespace vitrine::answer {
namespace {

/// The calls at the beginning of `text`, which follow what begins a call. Removes them; none if one is not whole.
std::optional<std::vector<ToolCall>> take_calls(const CallFormat& format, const OrderedJson& tools,
                                                std::string_view& text) {
  std::vector<ToolCall> calls;
  std::string_view rest = text;
  do {
    CallReader call(format, tools, 0);
    if (call.read(rest, true) != Match::yes) return std::nullopt;
    OrderedJson arguments = OrderedJson::parse(call.arguments(), nullptr, false);
    if (!arguments.is_object()) return std::nullopt;
    calls.push_back({call.id(), call.name(), std::move(arguments)});
    rest.remove_prefix(call.at());
  } while (format.between && take(rest, *format.between));
  if (take_end(format, rest, true) != Match::yes) return std::nullopt;
  text = rest;
  return calls;
}

/// Takes the reasoning from the beginning of `text`.
std::optional<std::string> take_reasoning(const ReasoningFormat& format, std::string_view prompt,
                                          std::string_view& text) {
  std::string_view rest = left_stripped(text);
  const bool is_open = has_begun(format, prompt);
  // Some templates write the end alone where there is no reasoning.
  if (!take(rest, format.begin) && !is_open && !rest.starts_with(format.end)) return std::nullopt;
  const std::size_t end = rest.find(format.end);
  if (end == rest.npos && !format.always_ends) return std::nullopt;
  const std::string reasoning(stripped(rest.substr(0, end)));
  text = end == rest.npos ? std::string_view() : rest.substr(end + format.end.size());
  return reasoning;
}

/// Where calls may begin, in order.
std::vector<std::size_t> places_of_calls(const CallFormat& format, std::string_view text) {
  const std::size_t first = text.size() - left_stripped(text).size();
  std::vector<std::size_t> places;
  for (const std::string& begin : format.begins) {
    for (std::size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
      if (at <= first || !format.only_first) places.push_back(at);
    }
  }
  std::ranges::sort(places);
  return places;
}

}  // namespace

bool has_begun(const ReasoningFormat& format, std::string_view prompt) {
  return right_stripped(prompt).ends_with(right_stripped(format.begin));
}

ParsedAnswer parse_answer(const AnswerFormat& format, std::string_view prompt, std::string_view text,
                          const OrderedJson& tools) {
  ParsedAnswer answer;
  if (format.reasoning) {
    auto reasoning = take_reasoning(*format.reasoning, prompt, text);
    if (reasoning && !reasoning->empty()) answer.reasoning = std::move(reasoning);
  }
  if (format.calls && tools.is_array() && !tools.empty()) {
    for (const std::size_t at : places_of_calls(*format.calls, text)) {
      for (const std::string& begin : format.calls->begins) {
        std::string_view rest = text.substr(at);
        if (!take(rest, begin)) continue;
        auto calls = take_calls(*format.calls, tools, rest);
        if (!calls) continue;
        answer.calls = std::move(*calls);
        answer.content = content_of(format, ContentPlace::first, text.substr(0, at));
        const std::string after = content_of(format, ContentPlace::after_calls, rest);
        if (!after.empty()) answer.content += answer.content.empty() ? after : "\n" + after;
        return answer;
      }
    }
  }
  answer.content = content_of(format, ContentPlace::first, text);
  return answer;
}

}  // namespace vitrine::answer
