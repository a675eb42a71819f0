// A config in words, for people and as JSON.
#pragma once

#include "base/json.h"
#include "model/config.h"

namespace vitrine::cli {

/// Ordered as it is to be read.
using OrderedJson = nlohmann::ordered_json;

/// What the whole model shares: sizes, embedding, head, final norm.
OrderedJson describe_model(const ModelConfig& config);
/// One layer.
OrderedJson describe_block(const BlockConfig& block);

}  // namespace vitrine::cli
