// Writes a config as GGUF's keys, and checks that reading them gives the same config.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/gguf_writer.h"
#include "checkpoint/gguf_architecture.h"

namespace vitrine {

/// The architecture as which this family is written. Throws Unsupported where there is none.
const GgufArchitecture& gguf_architecture_of(std::string_view family, std::string_view where);

/// The architecture's keys for `config`.
GgufKeys gguf_config_keys(const GgufArchitecture& architecture, const ModelConfig& config);

/// Numbers of the config that GGUF stores as a tensor.
struct RopeTensor {
  std::string name;
  std::vector<float> values;
};

/// Divisors of plain RoPE frequencies, for scalings that have no keys.
std::vector<RopeTensor> rope_tensors(const ModelConfig& config);

/// Throws Unsupported where a file with this header (keys and list of tensors) and these tensors would be read as a
/// model other than `config`, apart from what differs by format.
void check_round_trip(const GgufArchitecture& architecture, const std::string& header,
                      const std::vector<RopeTensor>& rope, ModelConfig config, std::string_view where);

}  // namespace vitrine
