// RoPE in config.json: rope_theta and rope_scaling of older files, rope_parameters of transformers 5.
#pragma once

#include <string_view>

#include "checkpoint/config_reader.h"
#include "ops/rope.h"

namespace vitrine {

/// A family's keys and defaults for RoPE.
struct RopeKeys {
  RopeConfig::Layout layout = RopeConfig::Layout::halves;
  double theta = 10000;
  std::string_view theta_key = "rope_theta";
  std::string_view fraction_key{};  ///< Of the fraction of a head that is rotated; empty: no such key.
  double fraction = 1;
  /// The table within rope_parameters, where each type of layer has one; then rope_scaling is that of full_attention.
  /// Empty: one table for all layers.
  std::string_view layer_type{};
  std::int64_t original_max_seq_len = 0;  ///< Overrides the table's; 0: none.
};

/// Each layer holds the frequencies of a head, so an absurd size must be refused before they are computed.
constexpr std::int64_t kMaxHeadDim = 4096;

/// RoPE of heads of `head_dim` by rope_parameters, or by rope_theta and rope_scaling. `max_seq_len` is the context by
/// max_position_embeddings.
RopeConfig read_rope(ConfigReader& config, std::int64_t head_dim, std::int64_t max_seq_len, const RopeKeys& keys = {});
/// The context of a model: dynamic scaling stretches max_position_embeddings by its factor.
std::int64_t stretched_context(std::int64_t max_seq_len, const RopeConfig& rope);
/// The factor of cos and sin that YaRN proposes.
double yarn_magnitude(double factor, double mscale = 1);

}  // namespace vitrine
