#include "checkpoint/family.h"

#include "base/error.h"

namespace vitrine {
namespace {

RopeScaling read_scaling(ConfigReader& scaling, std::string_view type, double max_seq_len) {
  if (type == "default") return std::monostate{};
  if (type == "linear") {
    const double factor = scaling.number("factor");
    if (!(factor > 0)) throw BadCheckpoint(scaling.where(), "factor must be above 0, got {}", factor);
    return LinearScaling{factor};
  }
  if (type == "llama3") {
    const BandScaling s{scaling.number("factor"), scaling.number("low_freq_factor"), scaling.number("high_freq_factor"),
                        scaling.number_or("original_max_position_embeddings", max_seq_len)};
    if (!(s.factor > 0 && s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor &&
          s.original_max_seq_len > 0)) {
      throw BadCheckpoint(scaling.where(), "llama3 scaling needs factor > 0, 0 < low_freq_factor < high_freq_factor");
    }
    return s;
  }
  throw Unsupported(scaling.where(), "rope scaling \"{}\" is not supported (default, linear and llama3 are)", type);
}

}  // namespace

RopeConfig read_rope(ConfigReader& config, std::int64_t dim, RopeConfig::Layout layout) {
  if (dim > kMaxHeadDim) throw BadCheckpoint(config.where(), "head_dim: expected at most {}, got {}", kMaxHeadDim, dim);
  const double max_seq_len = static_cast<double>(config.size_or("max_position_embeddings", 2048));
  double theta = config.number_or("rope_theta", 10000.0);
  RopeScaling scaling;
  std::optional<ConfigReader> parameters = config.object("rope_scaling");
  std::optional<ConfigReader> newer = config.object("rope_parameters");
  if (parameters && newer) {
    throw BadCheckpoint(config.where(), "expected either rope_scaling or rope_parameters, got both");
  }
  if (newer) {
    parameters = newer;
    theta = parameters->number_or("rope_theta", theta);
  }
  if (parameters) {
    const std::string old_name = parameters->text_or("type", "default");
    const std::string type = parameters->text_or("rope_type", old_name);
    scaling = read_scaling(*parameters, type, max_seq_len);
    parameters->ignore("original_max_position_embeddings");
    if (parameters->number_or("rope_theta", theta) != theta) {
      throw BadCheckpoint(parameters->where(), "rope_theta contradicts the one outside, {}", theta);
    }
    parameters->finish();
  }
  if (!(theta > 0)) throw BadCheckpoint(config.where(), "rope_theta must be above 0, got {}", theta);
  return make_rope(theta, dim, layout, scaling);
}

Activation activation_named(const ConfigReader& config, std::string_view name) {
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu_erf;
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "relu") return Activation::relu;
  throw Unsupported(config.where(), "activation \"{}\" is not supported", name);
}

std::vector<bool> read_sliding_layers(ConfigReader& config, std::int64_t n_layers) {
  const std::vector<std::string> types = config.texts_or_empty("layer_types");
  if (!types.empty() && static_cast<std::int64_t>(types.size()) != n_layers) {
    throw BadCheckpoint(config.where(), "layer_types: expected one for each of {} layers, got {}", n_layers,
                        types.size());
  }
  std::vector<bool> sliding;
  for (const std::string& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      throw Unsupported(config.where(), "layer type \"{}\" is not supported", type);
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

}  // namespace vitrine
