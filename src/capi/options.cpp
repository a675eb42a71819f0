#include "capi/options.h"

#include "base/error.h"

namespace vitrine {
namespace {

Json object_of(const char* json) {
  if (json == nullptr) return Json::object();
  Json object;
  try {
    object = parse_json(json, "options");
  } catch (const BadCheckpoint& e) {  // of a file, but this is an argument
    throw BadInput("options", "{}", std::string(e.what()));
  }
  if (!object.is_object()) throw BadInput("options", "expected a JSON object, got {}", object.type_name());
  return object;
}

}  // namespace

CallOptions::CallOptions(const char* json)
    : GivenOptions{object_of(json)}, ObjectFields(object, "this call has no such option") {}

std::vector<std::string> CallOptions::texts(const std::string& name) {
  return get<std::vector<std::string>>(name, "a list of texts").value_or(std::vector<std::string>());
}

std::exception_ptr CallOptions::error_of(std::string_view name, const std::string& message) const {
  return std::make_exception_ptr(BadInput("options", "{}: {}", std::string(name), message));
}

}  // namespace vitrine
