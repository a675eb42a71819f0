#include "answer/parse.h"

#include <algorithm>

#include "answer/marks.h"

namespace vitrine::answer {
namespace {

const OrderedJson kNone;

/// A declared tool. Its parameters are a JSON Schema, or null.
struct DeclaredTool {
  std::string_view name{};
  const OrderedJson* parameters = &kNone;
};

/// The tool with the longest name with which `text` begins; "": none.
DeclaredTool tool_at(const OrderedJson& tools, std::string_view text) {
  DeclaredTool longest;
  for (const OrderedJson& tool : tools) {
    const OrderedJson& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) continue;
    const std::string_view name = function["name"].get_ref<const std::string&>();
    if (!text.starts_with(name) || name.size() <= longest.name.size()) continue;
    longest = {name, function.contains("parameters") ? &function["parameters"] : &kNone};
  }
  return longest;
}

class CallReader {
 public:
  CallReader(const CallFormat& format, const OrderedJson& tools) : format_(format), tools_(tools) {}

  /// The calls at the beginning of `text`, which follow what begins a call. Removes them; none if one is not whole.
  std::optional<std::vector<ToolCall>> read(std::string_view& text) const {
    std::vector<ToolCall> calls;
    std::string_view rest = text;
    do {
      auto call = one(rest);
      if (!call) return std::nullopt;
      calls.push_back(std::move(*call));
    } while (format_.between && take(rest, *format_.between));
    // What a template puts after an answer may be missing, and what ends the calls may be the end of the answer.
    if (!take(rest, format_.end)) {
      if (!take(rest, format_.closing)) return std::nullopt;
      const std::string_view after = std::string_view(format_.end).substr(format_.closing.size());
      if (after.starts_with(rest)) rest = {};
    }
    text = rest;
    return calls;
  }

 private:
  std::optional<ToolCall> one(std::string_view& text) const {
    ToolCall call;
    DeclaredTool tool;
    for (std::size_t i = 0; i < format_.parts.size(); ++i) {
      const CallPart& part = format_.parts[i];
      const bool is_last = i + 1 == format_.parts.size();
      const std::string_view after = is_last ? std::string_view(format_.closing) : format_.parts[i + 1].text;
      switch (part.kind) {
        case CallPart::Kind::name: {
          if (!call.name.empty()) {
            if (!take(text, call.name)) return std::nullopt;
            break;
          }
          tool = tool_at(tools_, text);
          if (tool.name.empty()) return std::nullopt;
          call.name = tool.name;
          text.remove_prefix(call.name.size());
          break;
        }
        case CallPart::Kind::id: {
          const std::size_t size = after.empty() ? text.npos : text.find(after);
          if (size == text.npos || size == 0) return std::nullopt;
          call.id = text.substr(0, size);
          text.remove_prefix(size);
          break;
        }
        case CallPart::Kind::index: {
          const std::size_t size = std::min(text.find_first_not_of("0123456789"), text.size());
          if (size == 0) return std::nullopt;
          text.remove_prefix(size);
          break;
        }
        case CallPart::Kind::arguments: {
          auto arguments = read_arguments(format_.arguments, *tool.parameters, after, text);
          if (!arguments) return std::nullopt;
          call.arguments = std::move(*arguments);
          break;
        }
        default:
          if (!take(text, part.text)) return std::nullopt;
      }
    }
    return call;
  }

  const CallFormat& format_;
  const OrderedJson& tools_;
};

/// Takes the reasoning from the beginning of `text`.
std::optional<std::string> take_reasoning(const ReasoningFormat& format, std::string_view prompt,
                                          std::string_view& text) {
  std::string_view rest = left_stripped(text);
  const bool is_open = stripped(prompt).ends_with(format.begin);
  // Some templates write the end alone where there is no reasoning.
  if (!take(rest, format.begin) && !is_open && !rest.starts_with(format.end)) return std::nullopt;
  const std::size_t end = rest.find(format.end);
  if (end == rest.npos && !format.always_ends) return std::nullopt;
  const std::string reasoning(stripped(rest.substr(0, end)));
  text = end == rest.npos ? std::string_view() : rest.substr(end + format.end.size());
  return reasoning;
}

/// Removes from the end of `text` what a template puts after a content.
std::string_view without_end(std::string_view text, std::string_view end) {
  text = stripped(text);
  end = stripped(end);
  return text.ends_with(end) ? text.substr(0, text.size() - end.size()) : text;
}

}  // namespace

ParsedAnswer parse_answer(const AnswerFormat& format, std::string_view prompt, std::string_view text,
                          const OrderedJson& tools) {
  ParsedAnswer answer;
  if (format.reasoning) {
    auto reasoning = take_reasoning(*format.reasoning, prompt, text);
    if (reasoning && !reasoning->empty()) answer.reasoning = std::move(reasoning);
  }
  const auto content_of = [&](std::string_view content) {
    content = left_stripped(content);
    for (const std::string& lead : format.content_leads) {
      if (take(content, lead)) break;
    }
    return std::string(stripped(without_end(content, format.content_end)));
  };
  if (format.calls && tools.is_array() && !tools.empty()) {
    const CallReader reader(*format.calls, tools);
    const std::size_t first = text.size() - left_stripped(text).size();
    std::vector<std::size_t> places;
    for (const std::string& begin : format.calls->begins) {
      for (std::size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
        if (at <= first || !format.calls->only_first) places.push_back(at);
      }
    }
    std::ranges::sort(places);
    for (const std::size_t at : places) {
      for (const std::string& begin : format.calls->begins) {
        std::string_view rest = text.substr(at);
        if (!take(rest, begin)) continue;
        auto calls = reader.read(rest);
        if (!calls) continue;
        answer.calls = std::move(*calls);
        answer.content = content_of(text.substr(0, at));
        const std::string_view end = format.calls->end;
        const std::string after = content_of(without_end(rest, end.substr(format.calls->closing.size())));
        if (!after.empty()) answer.content += answer.content.empty() ? after : "\n" + after;
        return answer;
      }
    }
  }
  answer.content = content_of(text);
  return answer;
}

}  // namespace vitrine::answer
