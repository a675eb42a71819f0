#include "checkpoint/family.h"

#include "base/error.h"

namespace vitrine {
Activation activation_named(const ConfigReader& config, std::string_view name) {
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu_erf;
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "relu") return Activation::relu;
  throw Unsupported(config.where(), "activation \"{}\" is not supported", name);
}

std::vector<bool> read_sliding_layers(ConfigReader& config, std::size_t n_layers, std::optional<std::int64_t> pattern) {
  const std::vector<std::string> types = config.texts_or_empty("layer_types");
  if (!types.empty() && types.size() != n_layers) {
    throw BadCheckpoint(config.where(), "layer_types: expected one for each of {} layers, got {}", n_layers,
                        types.size());
  }
  std::vector<bool> sliding;
  for (std::size_t layer = 0; types.empty() && pattern && layer < n_layers; ++layer) {
    sliding.push_back((static_cast<std::int64_t>(layer) + 1) % *pattern != 0);
  }
  for (const std::string& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      throw Unsupported(config.where(), "layer type \"{}\" is not supported", type);
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

}  // namespace vitrine
