// The tools of the Responses interface as functions of a chat.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/ordered_json.h"
#include "serve/request_fields.h"

namespace vitrine {

/// A tool as the request names it.
struct ResponsesTool {
  std::string name{}, space{};  ///< Its name within the namespace, if it has one.
  bool is_custom = false;       ///< It gets a text: the only argument, `input`, of the function.
};

struct ResponsesTools {
  std::map<std::string, ResponsesTool, std::less<>> by_name{};  ///< By the name of the function.
  std::vector<std::string> unavailable{};                       ///< The types of tools that OpenAI's servers run.
};

/// The argument of the function that a custom tool becomes.
inline constexpr const char* kCustomArgument = "input";

/// The name of a tool's function: the namespace's name, a dot and its own.
std::string function_name_of(std::string_view space, std::string_view name);

/// The fields `tools` and `tool_choice`, as fields of `chat`. `body` has the order of the members. Throws RequestError.
ResponsesTools read_responses_tools(RequestFields& fields, const OrderedJson& body, OrderedJson& chat);

}  // namespace vitrine
