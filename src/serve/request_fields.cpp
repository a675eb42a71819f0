#include "serve/request_fields.h"

#include <algorithm>
#include <cmath>

#include "base/nearest.h"

namespace vitrine {

Json parse_body(std::string_view body) {
  try {
    Json json = parse_json(body, "request");
    if (!json.is_object())
      throw RequestError(kMalformed, "request", "expected a JSON object, got {}", json.type_name());
    return json;
  } catch (const BadCheckpoint& e) {
    throw RequestError(kMalformed, e);
  }
}

RequestError wrong_type(const std::string& name, std::string_view expected, const Json& value) {
  std::string found = value.type_name();
  if (value.is_number() || value.is_boolean()) found = value.dump();
  return {kInvalid, name, "expected {}, got {}", expected, found};
}

RequestFields::RequestFields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) throw wrong_type(path_.empty() ? "request" : path_, "an object", object);
}

const Json* RequestFields::find(std::string_view name) {
  known_.emplace_back(name);
  const auto at = object_.find(known_.back());
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<bool> RequestFields::flag(std::string_view name) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) throw wrong_type(name_of(name), "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> RequestFields::text(std::string_view name) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) throw wrong_type(name_of(name), "a string", *value);
  return value->get<std::string>();
}

std::optional<double> RequestFields::number(std::string_view name, double lowest, double highest) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) throw wrong_type(name_of(name), "a number", *value);
  const auto number = value->get<double>();
  if (!std::isfinite(number) || number < lowest || number > highest) {
    const std::string range = highest == std::numeric_limits<double>::max()
                                  ? fmt::format("a number of at least {}", lowest)
                                  : fmt::format("a number from {} to {}", lowest, highest);
    throw RequestError(kInvalid, name_of(name), "expected {}, got {}", range, value->dump());
  }
  return number;
}

std::int64_t RequestFields::checked_whole(const Json& value, const std::string& name, std::int64_t lowest,
                                          std::int64_t highest) {
  if (!value.is_number_integer()) throw wrong_type(name, "a whole number", value);
  constexpr auto kLargestWhole = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool is_too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > kLargestWhole;
  const std::int64_t number = is_too_large ? std::numeric_limits<std::int64_t>::max() : value.get<std::int64_t>();
  if (is_too_large || number < lowest || number > highest) {
    throw RequestError(kInvalid, name, "expected a whole number from {} to {}, got {}", lowest, highest, value.dump());
  }
  return number;
}

void RequestFields::refuse(std::string_view name, std::string_view why) {
  const Json* const value = find(name);
  if (value == nullptr || *value == Json(false)) return;
  const bool is_empty = (value->is_string() && value->get_ref<const std::string&>().empty()) ||
                        (value->is_structured() && value->empty());
  if (!is_empty) throw RequestError(kInvalid, name_of(name), "{}", why);
}

void RequestFields::ignore(std::initializer_list<std::string_view> names) {
  known_.insert(known_.end(), names.begin(), names.end());
}

void RequestFields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    throw RequestError(kInvalid, name_of(name), "unknown field{}", did_you_mean(name, known_));
  }
}

std::vector<std::int32_t> read_ids(const Json& list, const std::string& name, std::int64_t vocab_size) {
  if (!list.is_array()) throw wrong_type(name, "a list of ids", list);
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    if (!id.is_number_integer()) throw wrong_type(name, "ids", id);
    const bool is_known = (id.is_number_unsigned() || id.get<std::int64_t>() >= 0) &&
                          id.get<std::uint64_t>() < static_cast<std::uint64_t>(vocab_size);
    if (!is_known) throw RequestError(kInvalid, name, "expected ids from 0 to {}, got {}", vocab_size - 1, id.dump());
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace vitrine
