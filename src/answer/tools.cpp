#include "answer/tools.h"

namespace vitrine::answer {

std::vector<DeclaredTool> declared_tools(const OrderedJson& tools) {
  std::vector<DeclaredTool> declared;
  for (const OrderedJson& tool : tools) {
    const OrderedJson& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) continue;
    DeclaredTool own{.name = function["name"].get<std::string>(),
                     .parameters = {{"type", "object"}, {"properties", OrderedJson::object()}}};
    const auto parameters = function.find("parameters");
    if (parameters != function.end() && parameters->is_object() && !parameters->empty()) own.parameters = *parameters;
    const auto strict = function.find("strict");
    own.is_strict = strict == function.end() || !strict->is_boolean() || strict->get<bool>();
    declared.push_back(std::move(own));
  }
  return declared;
}

}  // namespace vitrine::answer
