// The norms of a config by name.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "model/config.h"

namespace vitrine {

/// The norm whose weight for_each_param calls `blocks.0.ln1.weight` is `blocks.0.ln1`.
using NormsByName = std::map<std::string, NormConfig, std::less<>>;
NormsByName norms_of(const ModelConfig& config);
/// Calls visit(norm) for every norm of a config.
void for_each_norm(ModelConfig& config, const std::function<void(NormConfig&)>& visit);

/// The norm of a parameter that is its weight; null for other parameters.
const NormConfig* norm_of_weight(const NormsByName& norms, std::string_view param);

}  // namespace vitrine
