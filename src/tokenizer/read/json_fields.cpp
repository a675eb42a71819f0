#include "tokenizer/read/json_fields.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace vitrine {

JsonFields::JsonFields(const Json& json, std::string_view what, std::string_view where)
    : json_(json), what_(what), where_(where) {
  if (!json.is_object()) throw BadCheckpoint(where, "expected an object as {}, got {}", what, json.type_name());
}

const Json* JsonFields::find(std::string_view key) const {
  const auto found = json_.find(std::string(key));
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::is_null(std::string_view key) const {
  const auto found = json_.find(std::string(key));
  return found != json_.end() && found->is_null();
}

void JsonFields::wrong(std::string_view key, std::string_view expected) const {
  const Json* value = find(key);
  throw BadCheckpoint(where_, "expected {} as \"{}\" of {}, got {}", expected, key, what_,
                      value == nullptr ? "nothing" : value->type_name());
}

const Json& JsonFields::at(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) wrong(key, "a value");
  return *value;
}

std::string JsonFields::string(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_string()) wrong(key, "a string");
  return value->get<std::string>();
}

std::string JsonFields::string(std::string_view key, std::string_view fallback) const {
  return find(key) == nullptr ? std::string(fallback) : string(key);
}

bool JsonFields::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_boolean()) wrong(key, "true or false");
  return value->get<bool>();
}

bool JsonFields::boolean(std::string_view key, bool fallback) const {
  return find(key) == nullptr ? fallback : boolean(key);
}

std::int64_t JsonFields::integer(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_number_unsigned() ||
      value->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    wrong(key, "a whole number");
  }
  return value->get<std::int64_t>();
}

std::int64_t JsonFields::integer(std::string_view key, std::int64_t fallback) const {
  return find(key) == nullptr ? fallback : integer(key);
}

const Json& JsonFields::array(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_array()) wrong(key, "an array");
  return *value;
}

void JsonFields::allow(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : json_.items()) {
    if (value.is_null() || std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    throw Unsupported(where_, "\"{}\" of {} is not supported", key, what_);
  }
}

}  // namespace vitrine
