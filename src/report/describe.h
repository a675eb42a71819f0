// The facts of a config as JSON.
#pragma once

#include "base/ordered_json.h"

#include "model/describe.h"

namespace vitrine {

OrderedJson json_of(const ConfigFacts& facts);

}  // namespace vitrine
