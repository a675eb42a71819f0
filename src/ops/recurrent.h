// Recurrent cells: a state per sequence, which each token changes.
//
//   z = W_ih x[t] + b_ih                                       for all rows at once (linear)
//   u = W_hh h[t−1] + b_hh                                     row by row
//
//   RNN    h[t] = tanh(z + u), or max(0, z + u)
//   LSTM   i, f, o = σ(z + u), g = tanh(z + u)                 rows of W in the order i, f, g, o
//          c[t] = f ⊙ c[t−1] + i ⊙ g        h[t] = o ⊙ tanh(c[t])
//   GRU    r, z' = σ(z + u), n = tanh(z + r ⊙ u)               rows of W in the order r, z, n
//          h[t] = (1 − z') ⊙ n + z' ⊙ h[t−1]
//
//   step       0      1      2      3            The sequences of a pass, longest first, are lanes. A step is one
//   lane 0   x0 ───▶ x1 ───▶ x2 ───▶ x3          product of W_hh with the states of the lanes that still run. A lane
//   lane 1   y0 ───▶ y1                          has the same bits alone and among others.
//
// Backward, from dh[t] and the gradient of the last state, the scan in reverse: du[t] from dh[t] (and dc[t]), then
// dh[t−1] += W_hhᵀ du[t]. At the end dW_hh += Σ_t du[t] ⊗ h[t−1], db_hh += Σ_t du[t]; dz[t] is the gradient of
// `linear`.
//
// With additive attention (ops/additive.h) the cell reads [x[t] ; context]: W_ih has columns for both, and each step
// begins with the context, which the state before the step selects.
//
// A tap sees the values of a step before they are used, so a write acts on all later steps. Sources: Elman 1990;
// Hochreiter & Schmidhuber 1997, Gers et al. 2000 (LSTM); Cho et al. 2014 (GRU); torch.nn.RNN, LSTM, GRU.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "base/fields.h"
#include "ops/linear.h"

namespace vitrine {

class AdditiveAttention;

enum class CellKind : std::uint8_t { rnn_tanh, rnn_relu, gru, lstm };

struct CellConfig {
  CellKind kind = CellKind::lstm;
  std::int64_t d_hidden = 0;

  bool has_c() const { return kind == CellKind::lstm; }
  std::int64_t n_gates() const { return kind == CellKind::lstm ? 4 : kind == CellKind::gru ? 3 : 1; }
  bool operator==(const CellConfig&) const = default;
};

constexpr std::array<std::string_view, 4> words(CellKind) { return {"rnn", "rnn_relu", "gru", "lstm"}; }
template <ConfigOf<CellConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"cell", "the formula of a step", {}, false}, c.kind);
  visit(Field{"d_hidden", "elements of a layer's output, in each direction", "`d_model`"}, c.d_hidden);
}

struct CellParams {
  LinearParams input;  ///< weight_ih `[G · d_hidden, in]` and bias_ih, of G gates
  LinearParams state;  ///< weight_hh `[G · d_hidden, d_hidden]` and bias_hh
};

/// A state of each segment: h and, of an LSTM, c, both `[n, d_hidden]`. No data: zeros.
struct CellStates {
  Tensor h, c;
};

enum class Direction : std::uint8_t { forward, reverse };

/// The states h `[T, d_hidden]` after each row, from `inputs` `[T, G · d_hidden]`, the products W_ih x + b_ih, which
/// the scan overwrites. `first`: the states before the first rows. If `last` has data, it receives those after the last
/// rows; with a tape it must be on the tape, and its gradient is read. Rows of padding have the state 0. `attention`
/// may be null.
Tensor scan(Pass& p, BlockSite at, Direction direction, const CellConfig& c, const CellParams& w, const Tensor& inputs,
            const CellStates& first, const CellStates& last, std::shared_ptr<AdditiveAttention> attention);

}  // namespace vitrine
