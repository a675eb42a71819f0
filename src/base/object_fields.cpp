#include "base/object_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/nearest.h"

namespace vitrine {

bool from_json(const Json& value, bool& place) {
  if (value.is_boolean()) place = value.get<bool>();
  return value.is_boolean();
}

bool from_json(const Json& value, double& place) {
  if (!value.is_number()) return false;
  place = value.get<double>();
  return std::isfinite(place);
}

bool from_json(const Json& value, std::string& place) {
  if (value.is_string()) place = value.get<std::string>();
  return value.is_string();
}

bool from_json(const Json& value, std::vector<std::string>& place) {
  if (!value.is_array()) return from_json(value, place.emplace_back());
  return std::all_of(value.begin(), value.end(),
                     [&](const Json& entry) { return from_json(entry, place.emplace_back()); });
}

bool from_json(const Json& value, std::vector<std::int32_t>& place) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [&](const Json& entry) {
           return from_json(entry, place.emplace_back()) && place.back() >= 0;
         });
}

std::string shown(const Json& value) {
  return value.is_number() || value.is_boolean() ? value.dump() : value.type_name();
}

const Json* ObjectFields::find(std::string_view name) {
  known_.emplace_back(name);
  const auto at = object_.find(known_.back());
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<double> ObjectFields::number(std::string_view name, double lowest, double highest) {
  const std::optional<double> number = get<double>(name, "a number");
  if (number && !(lowest <= *number && *number <= highest)) {
    fail_value(name, fmt::format("a number from {} to {}", lowest, highest), *find(name));
  }
  return number;
}

void ObjectFields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    fail(name, unknown_ + did_you_mean(name, known_));
  }
}

void ObjectFields::fail_value(std::string_view name, std::string_view expected, const Json& value) const {
  fail(name, fmt::format("expected {}, got {}", expected, shown(value)));
}

}  // namespace vitrine
