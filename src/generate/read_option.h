// Options of generation in JSON.
#pragma once

#include "base/object_fields.h"
#include "generate/options.h"

namespace vitrine {

/// Reads the field `name`, if it is there, as the value of an option. The fields throw their error if it has another
/// type or is not in the range.
void read_option(ObjectFields& fields, std::string_view name, const OptionRow& row, const OptionRange& range,
                 GenerateOptions& options);

}  // namespace vitrine
