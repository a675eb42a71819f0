// The options of a call, as a JSON object with the program's names.
#pragma once

#include "base/object_fields.h"

namespace vitrine {

/// What a CallOptions reads.
struct GivenOptions {
  Json object;
};

/// Throws BadInput.
class CallOptions : GivenOptions, public ObjectFields {
 public:
  /// `json` may be null: no options. Throws BadInput for anything but an object.
  explicit CallOptions(const char* json);

  std::vector<std::string> texts(const std::string& name);  ///< A list, or one text.

 protected:
  std::exception_ptr error_of(std::string_view name, const std::string& message) const override;
};

}  // namespace vitrine
