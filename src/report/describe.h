// The facts of a config as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "model/describe.h"

namespace vitrine {

using OrderedJson = nlohmann::ordered_json;

OrderedJson json_of(const ConfigFacts& facts);

}  // namespace vitrine
