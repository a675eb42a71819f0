// Configs in words, for `vitrine info`.
#pragma once

#include <string>
#include <string_view>

#include "model/config.h"
#include "model/facts.h"

namespace vitrine {

std::string describe_norm(const std::optional<NormConfig>& norm);
std::string_view describe_activation(Activation activation);

/// The lines of a model, without its layers, and of layer `i` of a stack.
ConfigFacts describe_model(const ModelConfig& config);
ConfigFacts describe_layer(const StackConfig& stack, std::size_t i);

}  // namespace vitrine
