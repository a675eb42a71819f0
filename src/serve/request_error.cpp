#include "serve/request_error.h"

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

}  // namespace vitrine
