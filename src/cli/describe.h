// A config described by key and value, as text and as JSON.
#pragma once

#include "base/json.h"
#include "model/config.h"

namespace vitrine::cli {

/// Keeps the order of its keys.
using OrderedJson = nlohmann::ordered_json;

/// What all layers share: sizes, embedding, head, final norm.
OrderedJson describe_model(const ModelConfig& config);
/// One layer.
OrderedJson describe_block(const BlockConfig& block);

}  // namespace vitrine::cli
