// Sampling parameters that replace defaults.
#pragma once

#include <optional>

namespace vitrine {

/// Sampling parameters from generation_config.json or from the caller.
struct SamplingOverrides {
  std::optional<double> temperature, top_p, min_p, repeat_penalty, typical_p, epsilon_cutoff, eta_cutoff;
  std::optional<int> top_k;
  bool greedy = false;  ///< In generation_config.json: do_sample is present and false.
};

}  // namespace vitrine
