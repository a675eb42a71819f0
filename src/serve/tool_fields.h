// The tools of a chat, and how its answers may call them.
#pragma once

#include <string>
#include <string_view>

#include "answer/grammar.h"
#include "base/ordered_json.h"
#include "serve/request_fields.h"

namespace vitrine {

struct RequestedTools {
  OrderedJson shown{};          ///< What the template gets: a list, or null.
  answer::AnswerRules rules{};  ///< Which of them may be called, and whether one must be.
  bool is_legacy = false;       ///< The request has `functions`: a message has one `function_call`.
};

/// The fields tools, tool_choice, parallel_tool_calls, functions and function_call. `body` is the text of the fields:
/// schemas keep the order of their members. Throws RequestError.
RequestedTools read_tools(std::string_view body, RequestFields& fields);

}  // namespace vitrine
