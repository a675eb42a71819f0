// What llama.cpp leaves out of a model or assumes of it, although the file could say it. Each returns what would
// change, or nothing. Source: ggml-org/llama.cpp, src/models.
#pragma once

#include <string_view>

#include "model/config.h"

namespace vitrine {

/// Biases for which the architecture's graph has no addition.
std::string_view any_bias(const ModelConfig& config);
std::string_view all_biases_but_of_qkv(const ModelConfig& config);
/// Heads whose elements are not d_model together, where the graph has a matrix of d_model × d_model.
std::string_view heads_of_other_width(const ModelConfig& config);
/// The same in OLMoE, whose norm of k also has d_model elements; and biases.
std::string_view olmoe_heads(const ModelConfig& config);
/// EXAONE 4 of 64 layers has windows in three of four layers, of any other number none.
std::string_view exaone4_windows(const ModelConfig& config);
/// Command R of 64 layers or more has norms of q and k, of fewer none.
std::string_view command_r_norms(const ModelConfig& config);

}  // namespace vitrine
