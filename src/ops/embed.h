// The embedding: ids to vectors.
//
//   x[t] = scale · embed[id[t]]        tokens, [T, d]
//   x[t] = x[t] + type_embed[type[t]]  if tokens have types (Devlin et al. 2018)
//   x[t] = x[t] + pos_embed[pos[t]]    if the model has learned positions
//   x[t] = x[t] + sinusoid(pos[t])     if its positions are sinusoids:
//   sin(pos · frequency[i]), cos(pos · frequency[i])        i = 0 … d/2 − 1, frequency[i] = 10000^(−2i/d)
//   dembed[id[t]] += scale · dx[t]     dpos_embed[pos[t]] += dx[t]
//
// Sources: Vaswani et al. 2017, sections 3.4 (scale √d_model) and 3.5 (sinusoids); Radford et al. 2019 (learned
// positions); tensor2tensor, layers/common_attention.py (its frequencies).
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pass/pass.h"

namespace vitrine {

/// The order of a sinusoid's elements. interleaved: sine and cosine in turn. halves: all sines, then all cosines.
/// tensor2tensor: halves, with frequency[i] = 10000^(−i/(d/2 − 1)).
enum class Sinusoid : std::uint8_t { interleaved, halves, tensor2tensor };
constexpr std::array<std::string_view, 3> words(Sinusoid) { return {"interleaved", "halves", "tensor2tensor"}; }

/// Rows of sinusoids, which are kept once they have been computed. Thread-safe.
class SinusoidRows {
 public:
  SinusoidRows(Sinusoid kind, std::int64_t d);
  /// Sets `row` `[d]` to the sinusoid of a position.
  void copy(std::int64_t position, float* row);

 private:
  static constexpr std::size_t kMaxKept = 4096;

  void compute(std::int64_t position, float* row) const;

  Sinusoid kind_;
  std::vector<double> frequency_;  // [(d + 1) / 2], radians per position
  std::int64_t d_;
  std::mutex mutex_;
  std::unordered_map<std::int64_t, std::vector<float>> rows_;  // by position
};

struct EmbedOptions {
  float scale = 1.0f;
  std::optional<std::int32_t> untrained_id{};  ///< Lookups of this id have no gradient (PyTorch's padding_idx).
  std::string_view name = "embed";             ///< Of the op in a ledger.
};

/// `[T, d]`: rows `ids` of `table` `[vocab_size, d]`, times the scale. Throws BadInput for ids outside the table.
Tensor embed(Pass& p, const Param& table, std::span<const std::int32_t> ids, const EmbedOptions& options = {});
/// What the positions of a stack's rows are.
struct PositionOptions {
  std::int64_t first = 0;  ///< The row of position 0, in the table or the sinusoids.
  /// Tokens of this id are not counted: they have row first − 1, and the next token the position that they would have.
  std::optional<std::int32_t> uncounted_id{};
};

/// `[T, d]`: rows of `table` at the positions of the tokens `ids` of the stack's segments. Throws BadInput beyond the
/// table.
Tensor embed_positions(Pass& p, const Param& table, std::span<const std::int32_t> ids, const PositionOptions& options,
                       Stack stack = Stack::only);
/// `[T, d]`: the sinusoids at these positions; zeros for a token that is not counted. They have no gradient.
Tensor embed_sinusoids(Pass& p, SinusoidRows& sinusoids, std::span<const std::int32_t> ids, std::int64_t d,
                       const PositionOptions& options, Stack stack);

}  // namespace vitrine
