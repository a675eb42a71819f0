// Rotary position embedding: each pair of a head's elements is rotated by an angle proportional to the position.
//
//   angle[t, i] = position[t] · frequency[i]        frequency[i] = theta^(−2i/dim), rescaled for long contexts
//   x' = x cos − y sin                              i = 0 … dim/2 − 1
//   y' = y cos + x sin
//   dx = dx' cos + dy' sin, dy = dy' cos − dx' sin
//
// Two layouts of the pairs: halves (x[i], x[i + dim/2]) and interleaved (x[2i], x[2i+1]). Elements from dim on are
// copied unchanged. Frequencies and angles are rounded to float32 as in the reference (transformers,
// modeling_rope_utils.py): at position 1000, one ulp in a frequency near 1 is 6e-5 radians in the angle.
// Some scalings depend on the length of the sequence. Frequencies must not change once a cache holds keys, so every
// token of a sequence uses the frequencies of its planned length (Segment::planned_length). A text that is fed in
// chunks through a cache of its length therefore gives the same bits as the text in one pass.
// Sources: Su et al. 2021, "RoFormer"; scaling: Chen et al. 2023 (linear), Llama 3.1's release (llama3), Peng et al.
// 2023 (YaRN), Ding et al. 2024 (LongRoPE), Gemma Team 2026 (proportional).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "pass/pass.h"

namespace vitrine {

/// frequency / factor
struct LinearScaling {
  static constexpr std::string_view kName = "linear";

  double factor = 1;

  bool operator==(const LinearScaling&) const = default;
};

/// Llama 3.1: long wavelengths are stretched by `factor`, short ones are kept, and those in between are interpolated.
struct Llama3Scaling {
  static constexpr std::string_view kName = "llama3";

  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_max_seq_len = 8192;

  bool operator==(const Llama3Scaling&) const = default;
};

/// YaRN: the frequencies of pairs that rotate more than `beta_fast` times within the original context are kept. Those
/// of pairs that rotate fewer than `beta_slow` times are divided by `factor`. A linear ramp connects the two.
struct YarnScaling {
  static constexpr std::string_view kName = "yarn";

  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  double original_max_seq_len = 2048;
  bool truncate = true;  ///< The ramp begins and ends at whole pairs.

  bool operator==(const YarnScaling&) const = default;
};

/// LongRoPE: a divisor for every pair, with one list for sequences within the original context and one for longer ones.
struct LongRopeScaling {
  static constexpr std::string_view kName = "longrope";

  std::vector<float> short_factor, long_factor;  ///< `[dim / 2]`
  std::int64_t original_max_seq_len = 4096;

  bool operator==(const LongRopeScaling&) const = default;
};

/// Dynamic NTK: theta grows with the length of sequences beyond the original context.
struct DynamicNtkScaling {
  static constexpr std::string_view kName = "dynamic";

  double factor = 1;
  std::int64_t original_max_seq_len = 2048;

  bool operator==(const DynamicNtkScaling&) const = default;
};

/// Proportional RoPE: the first pairs have the frequencies of the whole head, divided by `factor`, and the
/// others do not rotate: their frequency is 0.
struct ProportionalScaling {
  static constexpr std::string_view kName = "proportional";

  double factor = 1;
  std::int64_t n_rotated = 0;  ///< Pairs.

  bool operator==(const ProportionalScaling&) const = default;
};

using RopeScaling = std::variant<std::monostate, LinearScaling, Llama3Scaling, YarnScaling, LongRopeScaling,
                                 DynamicNtkScaling, ProportionalScaling>;

struct RopeConfig {
  enum class Layout : std::uint8_t { halves, interleaved };

  double theta = 10000;
  std::int64_t dim = 0;  ///< Elements of a head that are rotated; even.
  Layout layout = Layout::halves;
  RopeScaling scaling;
  float magnitude = 1.0f;        ///< Factor of cos and sin; scores are scaled by its square.
  std::vector<float> frequency;  ///< `[dim / 2]`, radians per position: rope_frequency for a short sequence.
  bool reversed = false;         ///< Angles are negative: pairs turn the other way.

  bool operator==(const RopeConfig&) const = default;
};

template <ConfigOf<LinearScaling> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"factor", "divides all frequencies"}, c.factor);
}
template <ConfigOf<Llama3Scaling> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"factor", "divides the lowest frequencies"}, c.factor);
  visit(Field{"low_freq_factor", "wavelengths above the original context divided by it are stretched"},
        c.low_freq_factor);
  visit(Field{"high_freq_factor", "those below the original context divided by it are kept"}, c.high_freq_factor);
  visit(Field{"original_max_seq_len", "tokens"}, c.original_max_seq_len);
}
template <ConfigOf<YarnScaling> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"factor", "divides the frequencies of pairs that rotate seldom"}, c.factor);
  visit(Field{"beta_fast", "rotations within the original context from which a pair is kept"}, c.beta_fast);
  visit(Field{"beta_slow", "those up to which it is divided"}, c.beta_slow);
  visit(Field{"original_max_seq_len", "tokens"}, c.original_max_seq_len);
  visit(Field{"truncate", "the ramp between them begins and ends at whole pairs"}, c.truncate);
}
template <ConfigOf<LongRopeScaling> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"short_factor", "divides the frequencies within the original context"}, c.short_factor);
  visit(Field{"long_factor", "divides those of longer sequences"}, c.long_factor);
  visit(Field{"original_max_seq_len", "tokens"}, c.original_max_seq_len);
}
template <ConfigOf<DynamicNtkScaling> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"factor", "of theta's growth beyond the original context"}, c.factor);
  visit(Field{"original_max_seq_len", "tokens"}, c.original_max_seq_len);
}
template <ConfigOf<ProportionalScaling> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"factor", "divides all frequencies"}, c.factor);
  visit(Field{"n_rotated", "pairs that rotate; the others have frequency 0"}, c.n_rotated);
}

constexpr std::array<std::string_view, 2> words(RopeConfig::Layout) { return {"halves", "interleaved"}; }
template <ConfigOf<RopeConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"theta", "base of the frequencies"}, c.theta);
  visit(Field{"dim", "elements of a head that are rotated", "`head_dim`"}, c.dim);
  visit(Field{"layout", "which elements are pairs"}, c.layout);
  visit(Field{"scaling", "of the frequencies, for long contexts"}, c.scaling);
  visit(Field{"magnitude", "factor of cos and sin"}, c.magnitude);
  visit(Field{"frequency", "computed from the others"}, c.frequency);
  visit(Field{"reversed", "pairs turn the other way"}, c.reversed);
}

/// `[dim / 2]`: the frequencies for a sequence of the planned length `length`.
std::vector<float> rope_frequency(double theta, std::int64_t dim, const RopeScaling& scaling, std::int64_t length = 1);
/// Whether rope_frequency depends on its length.
bool depends_on_length(const RopeScaling& scaling);
RopeConfig make_rope(double theta, std::int64_t dim, RopeConfig::Layout layout, const RopeScaling& scaling,
                     float magnitude = 1.0f);

/// cos and sin of the angles of all rows of a stack, times the magnitude: `[T, dim / 2]` each.
struct Rotations {
  Tensor cos, sin;
};

/// The rotations of a stack. The queries and keys of all layers with the same config read the same ones.
class RopeTables {
 public:
  /// Computes the rotations of `c` for `n_rows` rows if they are missing, in the pass's arena.
  void prepare(Pass& p, const RopeConfig& c, std::int64_t n_rows, Stack stack);
  /// Those of a config that is prepared.
  const Rotations& of(const RopeConfig& c) const;

 private:
  struct Table {
    const RopeConfig* config;
    Rotations rotations;
  };
  const Table* find(const RopeConfig& c) const;

  std::vector<Table> tables_;
};

/// `[T, n_heads, head_dim]`: x with every head rotated by the rotation of its row.
Tensor rope(Pass& p, const RopeConfig& c, const Rotations& by, const Tensor& x);

}  // namespace vitrine
