// JSON with the order of its keys.
#pragma once

#include "base/json.h"

namespace vitrine {

/// JSON with the order of its keys, which templates can see and users expect to find again.
using OrderedJson = nlohmann::ordered_json;

}  // namespace vitrine
