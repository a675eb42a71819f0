// RoPE in config.json: rope_theta and rope_scaling as files had them, rope_parameters as transformers 5 writes it.
#pragma once

#include <string_view>

#include "checkpoint/config_reader.h"
#include "ops/rope.h"

namespace vitrine {

/// How a family spells RoPE, and what it assumes where the file is silent.
struct RopeKeys {
  RopeConfig::Layout layout = RopeConfig::Layout::halves;
  std::int64_t max_seq_len = 2048;  ///< Where the file has no max_position_embeddings.
  double theta = 10000;
  std::string_view theta_key = "rope_theta";
  std::string_view fraction_key{};  ///< Of a head that is turned; empty: all of it, and no key says otherwise.
  double fraction = 1;
  /// The table within rope_parameters, where each type of layer has one; such files' rope_scaling is that of
  /// full_attention. Empty: one table for all.
  std::string_view layer_type{};
  std::int64_t original_max_seq_len = 0;  ///< Outranks what the table says; 0: none.
};

/// Each layer holds the frequencies of a head, so a size that a file makes up must be refused before they are made.
constexpr std::int64_t kMaxHeadDim = 4096;

/// RoPE of heads of `head_dim`: rope_parameters, or rope_theta and rope_scaling.
RopeConfig read_rope(ConfigReader& config, std::int64_t head_dim, const RopeKeys& keys = {});
/// RoPE by one table, whose keys must all be known; `theta` where it has none.
RopeConfig read_rope_table(ConfigReader& table, std::int64_t head_dim, std::int64_t max_seq_len, const RopeKeys& keys);
/// The context of a model: a scaling that grows with the sequence stretches max_position_embeddings by its factor.
std::int64_t stretched_context(std::int64_t max_seq_len, const RopeConfig& rope);

}  // namespace vitrine
