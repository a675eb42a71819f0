// The parts of an architecture whose full layers differ from those with a window in sizes and RoPE, whose last layers
// read the keys and values of earlier ones, and whose layers have per-layer embeddings or experts next to a dense FFN.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/architecture.h"

namespace vitrine {

/// The keys, in place of the shared ones of these names.
std::vector<GgufKey> layer_kind_keys();
std::vector<TensorRule> layer_kind_tensors();
/// Moves sizes that the file has for both kinds of layers to the keys of config.json, and leaves out those that follow
/// from others. Throws BadCheckpoint, Unsupported.
void complete_layer_kinds(Json& config, const StoredTensors& tensors);
/// What llama.cpp would compute otherwise: it takes the keys and values of the last two layers that have their own, of
/// a full layer and one with a window, and requires divisors of the frequencies. Empty: nothing.
std::string_view misread_layer_kinds(const ModelConfig& config);

/// The attention of all layers that have it.
std::vector<const AttentionConfig*> attentions_of(const ModelConfig& config);
/// n if exactly every n-th layer is full; empty if there is no such n.
std::optional<double> sliding_pattern(const ModelConfig& config);
/// n if exactly every n-th layer from the first on is full; empty if there is no such n.
std::optional<double> dense_first_pattern(const ModelConfig& config);

}  // namespace vitrine
