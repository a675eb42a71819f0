// Reads the fields of a request's JSON object, and errors as clients of the server see them: an HTTP status and
// OpenAI's error object.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>

#include "base/error.h"
#include "base/object_fields.h"
#include "base/ordered_json.h"

namespace vitrine {

/// A kind of error: the HTTP status, and the fields `type` and `code` of OpenAI's error object; "": null. The field
/// `param` is the place of the error, if that is a field of the request.
struct ErrorKind {
  int status = 500;
  const char* type = "server_error";
  const char* code = "";
  bool names_field = false;
};

inline constexpr ErrorKind kInvalid{400, "invalid_request_error", "", true};
inline constexpr ErrorKind kTooLong{400, "invalid_request_error", "context_length_exceeded", true};
inline constexpr ErrorKind kTooMany{400, "invalid_request_error", "too_many_texts", true};
inline constexpr ErrorKind kEmpty{400, "invalid_request_error", "empty_input", true};
/// The model cannot do what the route is for.
inline constexpr ErrorKind kLacksAbility{400, "invalid_request_error", "model_lacks_ability", true};
inline constexpr ErrorKind kMalformed{400, "invalid_request_error", ""};
inline constexpr ErrorKind kWrongKey{401, "invalid_request_error", "invalid_api_key"};
inline constexpr ErrorKind kForbidden{403, "invalid_request_error", ""};
inline constexpr ErrorKind kUnknownRoute{404, "invalid_request_error", ""};
inline constexpr ErrorKind kUnknownModel{404, "invalid_request_error", "model_not_found", true};
inline constexpr ErrorKind kWrongMethod{405, "invalid_request_error", ""};
inline constexpr ErrorKind kBodyTooLarge{413, "invalid_request_error", ""};
inline constexpr ErrorKind kWrongMediaType{415, "invalid_request_error", ""};
inline constexpr ErrorKind kHeaderTooLarge{431, "invalid_request_error", ""};
inline constexpr ErrorKind kQueueFull{429, "rate_limit_error", "queue_full"};
inline constexpr ErrorKind kFailed{500, "server_error", ""};
inline constexpr ErrorKind kUnavailable{503, "server_error", ""};

/// A request that the server refuses or that fails.
class RequestError : public Error {
 public:
  /// `where` names the field at fault, the header or "request".
  template <class... Args>
  RequestError(const ErrorKind& kind, std::string where, MessageFormat<std::type_identity_t<Args>...> format,
               Args&&... args)
      : Error(where, format, std::forward<Args>(args)...), kind_(kind), where_(std::move(where)) {}
  /// Another error's message, as an error of this kind.
  RequestError(const ErrorKind& kind, const std::exception& e) : Error(std::string(e.what())), kind_(kind) {}

  /// The same error, after which the client should try again.
  RequestError with_retry(std::chrono::seconds after) && {
    retry_after_ = after;
    return std::move(*this);
  }

  /// The same error of a field that the client knows by another name.
  RequestError renamed(std::string where) const;

  const ErrorKind& kind() const { return kind_; }
  const std::string& where() const { return where_; }  ///< The field at fault, the header, "request" or "".
  std::chrono::seconds retry_after() const { return retry_after_; }
  /// `{"error":{"message","type","param","code"}}`; param is the field at fault, or null.
  Json to_json() const;

 private:
  ErrorKind kind_;
  std::string where_;
  std::chrono::seconds retry_after_{};
};

/// The error of a request that threw `error`: 400 for BadInput and Unsupported, 503 if memory is exhausted, and 500 for
/// everything else, which is a fault of the server.
RequestError request_error_of(const std::exception_ptr& error);

/// JSON as one line. Bytes that are not UTF-8 are replaced by U+FFFD, infinities by null.
std::string json_text(const Json& value);
std::string json_text(const OrderedJson& value);

/// Parses the body of a request. Throws RequestError for what parse_json() rejects, and for a value that is no object.
Json parse_body(std::string_view body);

/// What happens to a field whose name is known to nobody.
enum class UnknownFields : std::uint8_t { refuse, ignore };

/// Errors are RequestErrors that name the field.
class RequestFields : public ObjectFields {
 public:
  /// `path` is the name of the object in errors, such as "stream_options"; "": the request itself.
  explicit RequestFields(const Json& object, std::string path = "", UnknownFields unknown = UnknownFields::refuse);
  /// The text of a field that must be there.
  std::string needed_text(std::string_view name) {
    const auto value = text(name);
    if (!value) fail(name, "expected a string, got none");
    return *value;
  }
  /// The fields of the object that is the value of a field.
  RequestFields of(const Json& object, std::string_view name) const {
    return RequestFields(object, name_of(name), unknown_);
  }

  /// Throws for a field that none of these functions has named, with the nearest name, unless such fields are ignored.
  void finish() const {
    if (unknown_ == UnknownFields::refuse) ObjectFields::finish();
  }

  /// Refuses a field that has a value other than null, false, an empty text, list or object, or one of `off`.
  void refuse(std::string_view name, std::string_view why, const std::vector<Json>& off = {});

  /// The name of a field in errors.
  std::string name_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }

 private:
  std::exception_ptr error_of(std::string_view name, const std::string& message) const override;

  std::string path_;
  UnknownFields unknown_;
};

/// The error for a value of the wrong type.
RequestError wrong_type(const std::string& name, std::string_view expected, const Json& value);

/// A list of ids from 0 to vocab_size - 1. Throws RequestError; `name` is the field.
std::vector<std::int32_t> read_ids(const Json& list, const std::string& name, std::int64_t vocab_size);

}  // namespace vitrine
