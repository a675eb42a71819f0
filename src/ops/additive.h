// Additive attention: at each step of a recurrent decoder, a weighted sum of the encoder's rows.
//
//   e[s]    = v · tanh(W_q h + W_k m[s])            h the decoder's state before the step, m the encoder's output
//   α       = softmax over s of e                   context = Σ_s α[s] · m[s]
//
// Backward, from dcontext:
//   dα[s]   = dcontext · m[s]                       dm[s] += α[s] · dcontext
//   de      = α ⊙ (dα − Σ_s α[s] dα[s])             dv += Σ_s de[s] · tanh(…)
//   dpre[s] = de[s] · v ⊙ (1 − tanh²)               d(W_q h) = Σ_s dpre[s], d(W_k m[s]) += dpre[s]
//
// The keys W_k m and the values m are computed once per source, and kept in its cache like those of cross-attention.
// Source: Bahdanau, Cho & Bengio 2014, appendix A.1.2.
#pragma once

#include <vector>

#include "ops/attend.h"
#include "ops/attention_sites.h"
#include "ops/linear.h"

namespace vitrine {

struct AdditiveParams {
  LinearParams query;  ///< `[d_attention, d_hidden]`, without bias, as are the others
  LinearParams key;    ///< `[d_attention, d_encoder]`
  LinearParams v;      ///< `[1, d_attention]`
};

/// The attention of one pass. Its rows are those of the decoder.
class AdditiveAttention {
 public:
  /// `keys` `[S, 1, d_attention]` and `values` `[S, 1, d_encoder]` are the rows that `sources` (one for each segment)
  /// were made from; no data if all are in caches.
  AdditiveAttention(Pass& p, BlockSite at, const AdditiveParams& w, const Tensor& keys, const Tensor& values,
                    const std::vector<KeySource>& sources);

  std::int64_t d_values() const { return d_values_; }

  /// A row of the pass, and its segment.
  struct Row {
    std::size_t segment;
    std::int64_t row;
  };
  /// Sets `contexts` `[n, d_encoder]` from the states h `[n, d_hidden]` of n rows of different segments.
  void read(std::span<const Row> rows, const Tensor& h, const Tensor& contexts);
  /// Adds to dh `[n, d_hidden]`, and to the gradients of keys, values and v, from dcontexts `[n, d_encoder]`.
  void read_backward(std::span<const Row> rows, const Tensor& dcontexts, const Tensor& dh);
  /// Passes the patterns, and with a tape their gradients, to the taps.
  void finish();
  /// Adds to the gradients of the query and of v, once all rows are done. `h` `[T, d_hidden]`: the states before each
  /// row of the pass.
  void finish_backward(const Tensor& h);

 private:
  struct Source {
    const float* keys = nullptr;    // [n, d_keys]
    const float* values = nullptr;  // [n, d_values]
    std::int64_t n = 0;             // visible positions
    std::int64_t n_positions = 0;
    Tensor pattern{}, tapped{}, factor{}, dpattern{};  // [1, T, S]; the last three only if a tap wants them
    std::int64_t first_row = 0;                        // of the segment in the pass
    std::int64_t first_key = 0;                        // of the source in the encoder's rows
  };

  Source source_of(const KeySource& source, std::size_t segment);
  const float* widened(const KvSpans& spans, const KvRows KvSpan::*side, std::int64_t n, std::int64_t width);
  void score(const Source& s, const float* query, float* strip, float* scratch) const;
  void read_row(const Row& row, const float* query, float* context, float* scratch);
  void row_backward(const Row& row, const float* dcontext, float* dquery, float* dv, float* scratch) const;
  SiteId site(std::size_t segment) const { return at_(AttentionSite::pattern, static_cast<int>(segment)); }

  Pass& p_;
  BlockSite at_;
  const AdditiveParams& w_;
  Tensor keys_, values_;
  std::int64_t d_keys_, d_values_;
  std::vector<Source> sources_;
  const float* v_;
  Tensor queries_, dqueries_, dv_;  // [T, d_keys]; those of v by segment [n, d_keys]
  Tensor dkeys_, dvalues_;          // gradients, in the backward
};

}  // namespace vitrine
