#include "serve/request_fields.h"

#include <algorithm>
#include <new>

namespace vitrine {

Json RequestError::to_json() const {
  const auto text = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
  return {{"error",
           {{"message", what()},
            {"type", kind_.type},
            {"param", kind_.names_field ? text(where_) : Json()},
            {"code", text(kind_.code)}}}};
}

RequestError request_error_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RequestError& e) {
    return e;
  } catch (const BadInput& e) {
    return {kMalformed, e};
  } catch (const Unsupported& e) {
    return {kMalformed, e};
  } catch (const OutOfCapacity& e) {
    return {kUnavailable, e};
  } catch (const std::bad_alloc&) {
    return {kUnavailable, "memory", "not enough memory for this request"};
  } catch (const std::exception& e) {
    return {kFailed, e};
  }
}

std::string json_text(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }
std::string json_text(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

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
  return {kInvalid, name, "expected {}, got {}", expected, shown(value)};
}

RequestFields::RequestFields(const Json& object, std::string path, UnknownFields unknown)
    : ObjectFields(object, "unknown field"), path_(std::move(path)), unknown_(unknown) {
  if (!object.is_object()) throw wrong_type(path_.empty() ? "request" : path_, "an object", object);
}

void RequestFields::refuse(std::string_view name, std::string_view why, const std::vector<Json>& off) {
  const Json* const value = find(name);
  if (value == nullptr || *value == Json(false) || std::find(off.begin(), off.end(), *value) != off.end()) return;
  const bool is_empty = (value->is_string() && value->get_ref<const std::string&>().empty()) ||
                        (value->is_structured() && value->empty());
  if (!is_empty) throw RequestError(kInvalid, name_of(name), "{}", why);
}

std::exception_ptr RequestFields::error_of(std::string_view name, const std::string& message) const {
  return std::make_exception_ptr(RequestError(kInvalid, name_of(name), "{}", message));
}

std::vector<std::int32_t> read_ids(const Json& list, const std::string& name, std::int64_t vocab_size) {
  if (!list.is_array()) throw wrong_type(name, "a list of ids", list);
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    if (!id.is_number()) throw wrong_type(name, "ids", id);
    std::int32_t& number = ids.emplace_back();
    const bool is_known = from_json(id, number) && number >= 0 && number < vocab_size;
    if (!is_known) throw RequestError(kInvalid, name, "expected ids from 0 to {}, got {}", vocab_size - 1, id.dump());
  }
  return ids;
}

}  // namespace vitrine
