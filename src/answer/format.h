// What a chat template writes for an answer of the assistant: where its reasoning is, its text, and its calls of tools.
//
// No model is known by name. learn_format() renders conversations with a template and compares what it writes; the
// result describes the syntax of calls as texts around values, from which answers are parsed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ordered_json.h"

namespace vitrine::answer {

/// A part of what a template writes around and for a value.
struct CallPart {
  enum class Kind : std::uint8_t {
    text,       ///< `text` itself
    name,       ///< the tool's name
    id,         ///< the call's id
    index,      ///< the number of the call
    arguments,  ///< all arguments, as ArgumentsFormat has them
    key,        ///< the name of an argument or of a member
    value,      ///< its value
  };
  Kind kind = Kind::text;
  std::string text{};
  bool operator==(const CallPart&) const = default;
};

/// How a list or an object is written: `empty`, or `open`, then elements with `separator` between them, then `close`.
struct Container {
  std::optional<std::string> empty{};  ///< The whole text if there are no elements.
  std::string open{}, separator{}, close{};
  /// An element with a text as its value, and one with any other value: from the key, if it has one, to what ends the
  /// value. The value of a text is up to what follows it.
  std::vector<CallPart> of_text{}, of_other{};
};

/// How the values of arguments are written within a text between marks.
struct Notation {
  enum class Kind : std::uint8_t {
    json,    ///< lists and objects are JSON, or Python's literals
    nested,  ///< they are written like the arguments: `list`, `object`
  };
  Kind kind = Kind::json;
  Container list{}, object{};
};

struct ArgumentsFormat {
  enum class Kind : std::uint8_t {
    json,    ///< a JSON object
    fields,  ///< each argument between marks, texts as they are
    values,  ///< another notation
  };
  Kind kind = Kind::json;
  Container members{};  ///< Unless `kind` is json. What closes them is part of the call.
  Notation notation{};
};

/// How a message with calls is put, which templates disagree about.
struct MessageForm {
  bool has_text_arguments = false;  ///< Arguments as JSON text, not as an object.
  bool has_null_content = false;    ///< A content that is not there is null, not "".
};

struct CallFormat {
  MessageForm form{};
  /// What begins the first call, up to its first part: where the answer begins, after its reasoning, after a content;
  /// longest first, without white space before it.
  std::vector<std::string> begins{};
  bool only_first = false;  ///< Nothing but a call tells that a call begins: content cannot come before.
  std::vector<CallPart> parts{};
  std::optional<std::string> between{};  ///< From the last part of a call to the first of the next; none: one call.
  std::string end{};                     ///< From the last part of the last call on.
  std::string closing{};                 ///< The part of `end` that belongs to the calls, not to the end of an answer.
  ArgumentsFormat arguments{};
  std::string example{};       ///< One call as the template writes it.
  bool has_short_ids = false;  ///< The template refuses ids that do not have nine letters and digits.

  bool has(CallPart::Kind kind) const;
};

struct ReasoningFormat {
  std::string begin{}, end{};
  bool opens_in_prompt = false;  ///< The prompt for an answer ends with `begin`.
  bool always_ends = true;       ///< Every answer has `end`, also one without reasoning, if the prompt has `begin`.
  std::vector<std::string> variables{};
};

/// Whether a prompt ends with the beginning of a reasoning, up to white space.
bool has_begun(const ReasoningFormat& format, std::string_view prompt);

/// What is known of a template.
struct AnswerFormat {
  bool reads_tools = false;      ///< Tools change the prompt.
  bool writes_results = false;   ///< Results of tools are written.
  bool knows_developer = false;  ///< The template reads the role `developer`.
  std::optional<CallFormat> calls{};
  std::string reason{};  ///< Why there are none.
  std::optional<ReasoningFormat> reasoning{};
  /// What the template may write before the content and is no part of it, longest first.
  std::vector<std::string> content_leads{};
  std::string content_end;               ///< What it writes after a content.
  std::vector<std::string> variables{};  ///< The names that it reads.
};

/// A call of a tool.
struct ToolCall {
  std::string id{}, name{};
  OrderedJson arguments = OrderedJson::object();
};

/// An answer, taken apart.
struct ParsedAnswer {
  std::string content{};
  std::optional<std::string> reasoning{};
  std::vector<ToolCall> calls{};
};

}  // namespace vitrine::answer
