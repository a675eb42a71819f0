// What architectures of GGUF files with states share.
#pragma once

#include <initializer_list>

#include "checkpoint/gguf/architecture.h"

namespace vitrine {

void erase_keys(Json& config, std::initializer_list<const char*> keys);
void rename_key(Json& config, const char* from, const char* to);

/// The K/V heads of each layer, 0 where it has a state.
constexpr GgufKey kLayersWithHeads{"attention.head_count_kv", "n_kv_heads", GgufKey::Kind::layer_counts, true};

/// The number of layers. Throws BadCheckpoint if there are too many.
std::int64_t count_layers(const Json& config, const StoredTensors& tensors);
/// The K/V heads of each layer, 0 where it has a state, become layer_types and one number. Throws Unsupported if layers
/// have other numbers of heads.
void complete_layers_with_state(Json& config, const StoredTensors& tensors);
/// Whether a layer of the model has a tensor, `blk.{l}.` and `end`.
bool holds_in_any_layer(const Json& config, const StoredTensors& tensors, std::string_view end);

/// Tensors whose names have no ending.
std::vector<TensorRule> whole_names(std::vector<TensorRule> rules);
/// The tensors of Mamba and of Mamba-2.
std::vector<TensorRule> mamba_tensors();
/// The sizes of Mamba's mixer, whose steps have a rank; those of Mamba-2's, which has heads and groups.
std::vector<GgufKey> mamba_keys();
std::vector<GgufKey> mamba2_keys();

/// The factor of d_model that gives the channels. Half an element is added so that their number is not rounded down.
void set_expansion(Json& config, const char* key);

/// Whether a block of the model has a state.
bool has_states(const ModelConfig& config);
bool has_no_states(const ModelConfig& config);

/// llama.cpp has no biases of projections, and expects those of Mamba's convolutions.
std::string_view misread_mixers(const ModelConfig& config);
/// The same where twice d_model channels are assumed.
std::string_view misread_doubled_mixers(const ModelConfig& config);

}  // namespace vitrine
