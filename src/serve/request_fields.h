// Reads the fields of a request's JSON object.
#pragma once

#include "base/object_fields.h"
#include "serve/request_error.h"

namespace vitrine {

/// Parses the body of a request. Throws RequestError for what parse_json() rejects, and for a value that is no object.
Json parse_body(std::string_view body);

/// Errors are RequestErrors that name the field.
class RequestFields : public ObjectFields {
 public:
  /// `path` is the name of the object in errors, such as "stream_options"; "": the request itself.
  explicit RequestFields(const Json& object, std::string path = "");

  /// Refuses a field that has a value other than null, false, an empty text, list or object.
  void refuse(std::string_view name, std::string_view why);

  /// The name of a field in errors.
  std::string name_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }

 private:
  std::exception_ptr error_of(std::string_view name, const std::string& message) const override;

  std::string path_;
};

/// The error for a value of the wrong type.
RequestError wrong_type(const std::string& name, std::string_view expected, const Json& value);

/// A list of ids from 0 to vocab_size - 1. Throws RequestError; `name` is the field.
std::vector<std::int32_t> read_ids(const Json& list, const std::string& name, std::int64_t vocab_size);

}  // namespace vitrine
