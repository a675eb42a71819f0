// Whether a model fits into the memory of this machine, and how fast it is expected to run here.
#pragma once

#include <optional>
#include <string>

#include "cli/machine_rates.h"
#include "report/model_facts.h"

namespace vitrine::cli {

struct Fit {
  double needed_bytes = 0;  ///< Weights, K/V and activations of the request's prompts (estimate_memory).
  double available_bytes = 0;
  double read_bytes_per_s = 0;
  double prefill_tokens_per_s = 0;              ///< Of all sequences of the request, read as one batch.
  std::optional<double> decode_tokens_per_s{};  ///< Of all sequences; none for a model that does not decode.

  bool fits() const { return needed_bytes <= available_bytes; }
};

/// The expected time of a pass is the sum over its ops: a product takes as long as the products that `rates` has
/// measured for the types of the weights, attention reads keys and values at the memory's bandwidth, and multiplies
/// queries of a prompt at half the rate of float32 products.
Fit fit_of(const InfoRequest& request, const ModelFacts& facts, MachineRates& rates);

/// {"needed_bytes","available_bytes","fits","read_gb_per_s","prefill_tokens_per_s","decode_tokens_per_s"}
Json json_of(const Fit& fit);
/// The same as two lines for people.
std::string text_of(const Fit& fit, const InfoRequest& request, const ModelFacts& facts);

}  // namespace vitrine::cli
