// The tools that a request declares.
#pragma once

#include <string>
#include <vector>

#include "base/ordered_json.h"

namespace vitrine::answer {

struct DeclaredTool {
  std::string name{};
  OrderedJson parameters{};  ///< The JSON Schema of the arguments, which are an object; without any, it is empty.
  bool is_strict = true;     ///< False: the arguments are any object.
};

/// The tools of a list as in requests: functions, or objects with a member `function`. What is not one is left out.
std::vector<DeclaredTool> declared_tools(const OrderedJson& tools);

}  // namespace vitrine::answer
