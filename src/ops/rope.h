// Rotary position embedding: each pair of a head's elements is turned by an angle that grows with the position.
//
//   angle[t, i] = position[t] · frequency[i]        frequency[i] = theta^(−2i/dim), rescaled for long contexts
//   x' = x cos − y sin                              i = 0 … dim/2 − 1
//   y' = y cos + x sin
//   dx = dx' cos + dy' sin, dy = dy' cos − dx' sin
//
// Two layouts of the pairs: halves (x[i], x[i + dim/2]) and interleaved (x[2i], x[2i+1]). Elements from dim on stay.
// The frequency and the angle are rounded to float32 like the reference (transformers, modeling_rope_utils.py), since
// at position 1000 a last bit of the frequency is 60 last bits of the angle.
// Some scalings depend on how long the sequence is. Frequencies must not change under keys that a cache already holds,
// so a sequence keeps those of the length it was made for (Segment::planned_length), from its first token on: a text
// through a cache of its length gives the bits of the text at once, and of the reference's forward over it.
// Sources: Su et al. 2021, "RoFormer"; scaling: Chen et al. 2023 (linear), Llama 3.1's release (llama3), Peng et al.
// 2023 (YaRN), Ding et al. 2024 (LongRoPE).
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

/// YaRN: pairs that turn more than `beta_fast` times within the original context are kept, those that turn less than
/// `beta_slow` times are divided by `factor`, a ramp over the pairs between them.
struct RampScaling {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  double original_max_seq_len = 2048;
  bool truncate = true;  ///< The ramp's ends are whole pairs.

  bool operator==(const RampScaling&) const = default;
};

/// LongRoPE: a divisor for every pair, one list for sequences within the original context, one for longer ones.
struct ListedScaling {
  std::vector<float> within, beyond;  ///< `[dim / 2]`
  std::int64_t original_max_seq_len = 4096;

  bool operator==(const ListedScaling&) const = default;
};

/// Dynamic NTK: theta grows with a sequence longer than the original context.
struct GrowingScaling {
  double factor = 1;
  std::int64_t original_max_seq_len = 2048;

  bool operator==(const GrowingScaling&) const = default;
};

using RopeScaling =
    std::variant<std::monostate, LinearScaling, BandScaling, RampScaling, ListedScaling, GrowingScaling>;

struct RopeConfig {
  enum class Layout : std::uint8_t { halves, interleaved };

  double theta = 10000;
  std::int64_t dim = 0;  ///< Elements of a head that are turned; even.
  Layout layout = Layout::halves;
  RopeScaling scaling;
  float magnitude = 1.0f;        ///< cos and sin are multiplied by it, so scores by its square.
  std::vector<float> frequency;  ///< `[dim / 2]`, radians a position: rope_frequency of the above, for short texts.

  bool operator==(const RopeConfig&) const = default;
};

/// For a sequence that is made for `length` tokens.
std::vector<float> rope_frequency(double theta, std::int64_t dim, const RopeScaling& scaling, std::int64_t length = 1);
/// Whether rope_frequency depends on its length.
bool depends_on_length(const RopeScaling& scaling);
RopeConfig make_rope(double theta, std::int64_t dim, RopeConfig::Layout layout, const RopeScaling& scaling,
                     float magnitude = 1.0f);

/// `[T, n_heads, head_dim]`: x with every head turned by the position of its row.
Tensor rope(Pass& p, const RopeConfig& c, const Tensor& x);

}  // namespace vitrine
