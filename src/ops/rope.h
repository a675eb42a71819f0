// Rotary position embedding: each pair of a head's elements is turned by an angle that grows with the position.
//
//   angle[t, i] = position[t] · frequency[i]        frequency[i] = theta^(−2i/dim), rescaled for long contexts
//   x' = x cos − y sin                              i = 0 … dim/2 − 1
//   y' = y cos + x sin
//
// Two layouts of the pairs: halves (x[i], x[i + dim/2]) and interleaved (x[2i], x[2i+1]). Elements from dim on stay.
// The frequency and the angle are rounded to float32 like the reference (transformers, modeling_rope_utils.py), since
// at position 1000 a last bit of the frequency is 60 last bits of the angle.
// Source: Su et al. 2021, "RoFormer"; scaling: Chen et al. 2023 (linear), Llama 3.1's release (llama3).
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "pass/pass.h"

namespace vitrine {

/// frequency / factor
struct LinearScaling {
  double factor = 1;

  bool operator==(const LinearScaling&) const = default;
};

/// Long wavelengths are stretched by `factor`, short ones kept, those between blended.
struct BandScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_max_seq_len = 8192;

  bool operator==(const BandScaling&) const = default;
};

using RopeScaling = std::variant<std::monostate, LinearScaling, BandScaling>;

struct RopeConfig {
  enum class Layout : std::uint8_t { halves, interleaved };

  double theta = 10000;
  std::int64_t dim = 0;  ///< Elements of a head that are turned; even.
  Layout layout = Layout::halves;
  RopeScaling scaling;
  std::vector<float> frequency;  ///< `[dim / 2]`, radians a position: rope_frequency of the above.

  bool operator==(const RopeConfig&) const = default;
};

std::vector<float> rope_frequency(double theta, std::int64_t dim, const RopeScaling& scaling);
RopeConfig make_rope(double theta, std::int64_t dim, RopeConfig::Layout layout, const RopeScaling& scaling);

/// `[T, n_heads, head_dim]`: x with every head turned by the position of its row.
Tensor rope(Pass& p, const RopeConfig& c, const Tensor& x);

}  // namespace vitrine
