// RoPE in config.json: rope_theta and rope_scaling of older files, rope_parameters of transformers 5.
#pragma once

#include <string_view>

#include "checkpoint/hugging_face/config_reader.h"
#include "ops/rope.h"

namespace vitrine {

/// A family's keys and defaults for RoPE.
struct RopeKeys {
  RopeConfig::Layout layout = RopeConfig::Layout::halves;
  double theta = 10000;
  std::string_view theta_key = "rope_theta";
  std::string_view fraction_key{};  ///< Of the fraction of a head that is rotated; empty: no such key.
  double fraction = 1;
  /// The type of layer whose table in rope_parameters is read; rope_scaling then applies to full_attention only. Empty:
  /// there is one table for all layers.
  std::string_view layer_type{};
  std::int64_t original_max_seq_len = 0;  ///< Overrides the table's; 0: none.
  RopeScaling scaling{};  ///< Of a config without rope_parameters and rope_scaling, with cos and sin as they are.
  bool has_query_scale = false;   ///< The table also has keys of a scale of the queries, which the family reads.
  bool ignores_fraction = false;  ///< The table's partial_rotary_factor only repeats what other keys say.
  bool has_sections = false;      ///< M-RoPE, which is RoPE for texts: mrope_section, mrope_interleaved.
  bool has_alpha = false;         ///< "dynamic" with `alpha` is no scaling, but another theta: NTK for one length.
};

/// Each layer holds the frequencies of a head, so an absurd size must be rejected before they are computed.
constexpr std::int64_t kMaxHeadDim = 4096;

/// Reads RoPE for heads of `head_dim` elements from rope_parameters, or from rope_theta and rope_scaling. `max_seq_len`
/// is max_position_embeddings. Throws BadCheckpoint, Unsupported.
RopeConfig read_rope(ConfigReader& config, std::int64_t head_dim, std::int64_t max_seq_len, const RopeKeys& keys = {});
/// The context of a model: dynamic scaling stretches max_position_embeddings by its factor.
std::int64_t stretched_context(std::int64_t max_seq_len, const RopeConfig& rope);
/// The factor of cos and sin that YaRN proposes.
double yarn_magnitude(double factor, double mscale = 1);

}  // namespace vitrine
