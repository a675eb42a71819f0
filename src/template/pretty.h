// Python's pprint.
#pragma once

#include <string>

#include "template/value.h"

namespace vitrine::jinja {

/// pprint.pformat(value): repr() with the keys of dicts sorted, broken into lines of at most 80 characters.
std::string pretty(const Value& value);

}  // namespace vitrine::jinja
