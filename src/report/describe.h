// Describes a config as keys and values, which vitrine info prints as text and as JSON.
#pragma once

#include "base/json.h"
#include "model/config.h"

namespace vitrine {

/// Keeps the order of its keys.
using OrderedJson = nlohmann::ordered_json;

/// The part that all layers share: sizes, embedding, head, final norm.
OrderedJson describe_model(const ModelConfig& config);
/// The config of one layer.
OrderedJson describe_block(const BlockConfig& block);

}  // namespace vitrine
