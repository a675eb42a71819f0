// Alternating updates (AltUp): the stream is several streams of d_model elements, of which each block computes one.
//
//   x [T, n · d] ── predict ──┬── active ── sublayers ──▶ made [T, d] ── correct ──▶ [T, n · d]
//                             └─────────────────────────────────────────────┘
//
//   r(v) = tanh(router · norm(v) / d)                                   [T, n]
//   predict: y_b = x_b + Σ_a c[b, a] · x_a                              c = predict · r(x_active)
//   correct: y_b = x_b + (1 + c_b) · (made − x_active)                  c = correct · r(made)
//
// A last sublayer may read the active stream after the correction, times a vector; its output is added to all streams
// but the first (Sublayer::Input::corrected).
//
// Before the first block stream i > 0 is a map of the embedding, with the embedding's magnitude; after the last block
// each is mapped again, with the magnitude of the first, and the stream is their mean. A row has its streams next to
// each other, so all that moves rows of the stream moves them together.
// Source: Baykal et al. 2023; transformers, models/gemma3n.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/altup/sites.h"
#include "model/param_list.h"

namespace vitrine {

constexpr std::int64_t kMaxStreams = 16;

struct AltUpConfig {
  std::int64_t n_streams = 2;
  std::int64_t active = 0;            ///< The stream that the sublayers of a block read.
  bool scaled = true;                 ///< What a sublayer reads after the correction is multiplied by a vector.
  NormConfig norm{};                  ///< Of what the router reads.
  std::optional<float> coef_limit{};  ///< Training keeps the elements of AltUpParams::predict and correct within ±it.

  bool operator==(const AltUpConfig&) const = default;
};

template <ConfigOf<AltUpConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"n_streams", "number of residual streams (AltUp)", {}, false}, c.n_streams);
  visit(Field{"active_stream", "the stream that blocks compute", {}, false}, c.active);
  visit(Field{"scaled_correction", "a vector multiplies the corrected stream that a sublayer reads", {}, false},
        c.scaled);
  visit(Field{"router_norm", "of what the router of the streams reads", {}, false}, c.norm);
  visit(Field{"coef_limit", "training keeps the weights of coefficients of streams within it", {}, false},
        c.coef_limit);
}

/// Of one block.
struct AltUpParams {
  NormParams norm;
  LinearParams router;   ///< `[n_streams, d_model]`
  LinearParams predict;  ///< `[n_streams², n_streams]`
  LinearParams correct;  ///< `[n_streams, n_streams]`
  Param scale;           ///< `[d_model]`, if what is read after the correction is scaled.
};

/// Of a stack.
struct StreamsParams {
  std::vector<LinearParams> in, out;  ///< `[d_model, d_model]` for each stream but the first.
};

void check(std::string_view where, const AltUpConfig& c, std::int64_t d_model);
void list_params(ParamList& list, const std::string& at, const AltUpConfig& c, AltUpParams& w, std::int64_t d_model);
void list_params(ParamList& list, const std::string& prefix, const AltUpConfig& c, StreamsParams& w,
                 std::int64_t d_model);

/// `[T, n · d]` from the embedding `[T, d]`.
Tensor split_streams(Pass& p, const AltUpConfig& c, const StreamsParams& w, const Tensor& x);
/// `[T, d]` from the streams after the last block.
Tensor merge_streams(Pass& p, const AltUpConfig& c, const StreamsParams& w, const Tensor& x);

Tensor predict(Pass& p, BlockSite at, const AltUpConfig& c, const AltUpParams& w, const Tensor& x);
/// `made` is what the sublayers made of the active one of the `predicted` streams.
Tensor correct(Pass& p, BlockSite at, const AltUpConfig& c, const AltUpParams& w, const Tensor& predicted,
               const Tensor& made);
/// The active one of the streams `[T, n · d]`.
Tensor active_stream(Pass& p, const AltUpConfig& c, const Tensor& x);
/// What a sublayer after the correction reads.
Tensor corrected_stream(Pass& p, const AltUpConfig& c, const AltUpParams& w, const Tensor& corrected);

}  // namespace vitrine
