#include "capi/options.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "report/results.h"

namespace vitrine {

CallOptions::CallOptions(const char* json) {
  if (json == nullptr) return;
  try {
    object_ = parse_json(json, "options");
  } catch (const BadCheckpoint& e) {  // of a file, but this is an argument
    throw BadInput("options", "{}", std::string(e.what()));
  }
  if (!object_.is_object()) throw BadInput("options", "expected a JSON object, got {}", object_.type_name());
}

const Json* CallOptions::find(const std::string& name) {
  known_.push_back(name);
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void CallOptions::fail(const std::string& name, const std::string& expected, const Json& value) {
  throw BadInput("options", "{}: expected {}, got {}", name, expected, json_line(value));
}

bool CallOptions::flag(const std::string& name) {
  const Json* const value = find(name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) fail(name, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> CallOptions::text(const std::string& name) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(name, "a text", *value);
  return value->get<std::string>();
}

std::vector<std::string> CallOptions::texts(const std::string& name) {
  const Json* const value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  const bool is_list = value->is_array() &&
                       std::all_of(value->begin(), value->end(), [](const Json& entry) { return entry.is_string(); });
  if (!is_list) fail(name, "a list of texts", *value);
  return value->get<std::vector<std::string>>();
}

std::optional<std::vector<std::int32_t>> CallOptions::ids(const std::string& name) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto is_id = [](const Json& entry) {
    return entry.is_number_integer() && entry >= 0 && entry <= std::numeric_limits<std::int32_t>::max();
  };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_id)) fail(name, "a list of ids", *value);
  return value->get<std::vector<std::int32_t>>();
}

std::optional<double> CallOptions::number(const std::string& name) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail(name, "a number", *value);
  return value->get<double>();
}

void CallOptions::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    throw BadInput("options", "{}: this call has no such option{}", name, did_you_mean(name, known_));
  }
}

}  // namespace vitrine
