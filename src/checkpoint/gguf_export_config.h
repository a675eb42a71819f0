// From a config to GGUF's keys, held against what those keys say when they are read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/gguf_writer.h"
#include "checkpoint/gguf_architecture.h"

namespace vitrine {

/// The architecture of files made of this family. Throws Unsupported where there is none.
const GgufArchitecture& gguf_architecture_of(std::string_view family, std::string_view where);

/// The keys of the architecture that say `config`.
GgufKeys gguf_config_keys(const GgufArchitecture& architecture, const ModelConfig& config);

/// Numbers of the config that files hold as a tensor.
struct RopeTensor {
  std::string name;
  std::vector<float> values;
};

/// Divisors of plain RoPE frequencies, where keys alone do not say the scaling.
std::vector<RopeTensor> rope_tensors(const ModelConfig& config);

/// Throws Unsupported where a file with this header (keys and list of tensors) and these tensors would be read as
/// another model than `config`, but for what differs by format.
void check_says_the_same(const GgufArchitecture& architecture, const std::string& header,
                         const std::vector<RopeTensor>& rope, ModelConfig config, std::string_view where);

}  // namespace vitrine
