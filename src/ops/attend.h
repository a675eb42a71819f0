// Attention: for each query the sum of the visible values, weighted by the softmax of its scores.
//
//   raw[h, t, s]     = (q[t, h] · k[s, g]) · score_scale            g = h / (n_heads / n_kv_heads)
//   biased           = raw + bias[h, s − t]                         in stacks with a relative bias (relative_bias.h)
//                      − slope[h] · |s − t|                         in layers with ALiBi (alibi.h)
//                      + terms of query and key by their distance   in disentangled attention (position_scores.h)
//   scores[h, t, s]  = softcap · tanh(biased / softcap), −∞ where the mask hides s from t
//   pattern[h, t, s] = exp(scores − m) / Σ exp(scores − m)          m the largest score of the row
//                      with a sink, both include one more score, sink[h], of a position that has no value
//   z[t, h]          = Σ_s pattern[h, t, s] · v[s, g]               s ascending
//
//            keys ──────────────────────────▶ s                The strip of a query is its row of scores over the keys
//          ┌───────────────┬─────────┐                         it attends to. A tile is a few strips that share their
//  query t │ past (cache)  │ present │  ◀─ strip               keys. Attention works tile by tile, in place, so that a
//          └───────────────┴─────────┘                         tile fits in cache and no T × S matrix is stored.
//                    ◀── window ──▶t
//
// Backward, from the gradient dz of z, over the same tiles, whose strips are recomputed:
//
//   dpattern[h, t, s] = dz[t, h] · v[s, g]                              dv[s, g] += Σ_t pattern[h, t, s] · dz[t, h]
//   dscores = pattern · (dpattern − Σ_s pattern · dpattern)             draw = dscores · (1 − (scores / softcap)²)
//   dbias[h, s − t] += draw[h, t, s]
//   dsink[h] −= Σ_t nothing[t, h] · Σ_s pattern · dpattern              nothing: the share of the sink
//   dq[t, h] += score_scale · Σ_s draw[h, t, s] · k[s, g]               dk[s, g] += score_scale · Σ_t draw · q[t, h]
//
// If a tap reads the scores or the pattern, all strips are stored in one [H, T, S] tensor, and each step runs over the
// whole tensor before the next. Taps that join segments see those of all segments as one [n, H, T, S] tensor. The
// arithmetic of a strip is the same, so taps do not change any bit of the result.
// Sources: Vaswani et al. 2017; Shazeer 2019 (shared K/V heads); Beltagy et al. 2020 (windows); Gemma Team 2024
// (softcap); OpenAI 2025 (sinks).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/fields.h"
#include "ops/alibi.h"
#include "ops/mask.h"
#include "pass/pass.h"

namespace vitrine {

struct AttendConfig {
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  float score_scale = 1.0f;
  std::optional<float> softcap;
  std::optional<AlibiConfig> alibi{};
  bool sink = false;  ///< A learned score for each head, of attending to nothing, joins each softmax.
  std::optional<std::int64_t> value_dim{};  ///< Elements of a head's values, if not head_dim.

  std::int64_t width_of_values() const { return value_dim.value_or(head_dim); }

  bool operator==(const AttendConfig&) const = default;
};

template <ConfigOf<AttendConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"n_heads", "heads of queries", Field::kRequired}, c.n_heads);
  visit(Field{"n_kv_heads", "heads of keys and values, which divide `n_heads`", "`n_heads`"}, c.n_kv_heads);
  visit(Field{"head_dim", "elements of a head", "d_model / n_heads"}, c.head_dim);
  visit(Field{"value_dim", "elements of a head's values", "`head_dim`"}, c.value_dim);
  visit(Field{"score_scale", "factor of q · k", "1 / √head_dim"}, c.score_scale);
  visit(Field{"score_softcap", "scores become softcap · tanh(scores / softcap)"}, c.softcap);
  visit(Field{"alibi", "scores fall with the distance"}, c.alibi);
  visit(Field{"sink", "a learned score for each head, of attending to nothing, joins each softmax"}, c.sink);
}

/// What is added to the scores by relative position, if it has data.
struct RelativeScores {
  Tensor bias{};                   ///< `[n_heads, 2n − 1]`: by key − query, n the length of the longest sequence.
  Tensor of_queries{}, of_keys{};  ///< `[T, n_heads, m]`: of each query, and of each key, by row of a table.
  /// The row by query − key, from −(n − 1) to n − 1.
  std::shared_ptr<const std::vector<std::int32_t>> row_of_distance{};

  bool is_by_row() const { return of_queries.data != nullptr || of_keys.data != nullptr; }
  /// Adds those that have data to the inputs of an op.
  void add_to(std::vector<Tensor>& inputs) const;
};

/// The keys and values that the queries of one segment read: those in its cache, then rows of this pass.
struct KeySource {
  const KvCache* cache = nullptr;  ///< Null: only rows of this pass.
  int layer = 0;                   ///< A layer of the cache.
  std::int64_t position = 0;       ///< Of the first row of this pass; equals cache->length().
  std::int64_t first_row = 0;      ///< Rows [first_row, first_row + length) of k and v.
  std::int64_t length = 0;
  KvBatch keys, values;        ///< These rows in the types of the cache, integers after KvKernels::rotate.
  std::int64_t n_padding = 0;  ///< Of these rows, the last ones, which are hidden.
  /// A value is the first so many elements of its key; absent: values have rows of their own.
  std::optional<std::int64_t> value_in_key{};

  std::int64_t n_positions() const { return position + length; }
  KvTypes types() const { return {keys.type, values.type}; }
  /// All keys and values of one K/V head, in ascending position.
  KvSpans spans(std::int64_t kv_head) const;
  /// The rows of this pass.
  KvRows own(const KvBatch& batch, std::int64_t kv_head) const;
  /// Rotates a key of `n` elements, or a query that meets keys: KvKernels::rotate of the whole row, or, if a value is
  /// its beginning, of the value and of the rest.
  void rotate_key(const Kernels& kernels, const float* from, std::int64_t n, float* to) const;
};

/// One source for each segment of the layer's stack: its rows of k and v `[T, n_kv_heads, …]`, rounded to the
/// types of its cache, or to Pass::kv_types without one. Heads are rotated before they are rounded to integers, which
/// spreads large elements over the head; queries are rotated alike, and sums of values are rotated back. In
/// cross-attention k and v are those of the encoder's rows, if the pass has any, and the cache is that of the source.
/// `kv_layer`: the layer of the cache that has the earlier ones, if it is not that of `at`.
/// If v begins where k does and is narrower, a value is the beginning of its key, and the cache keeps one row for both,
/// in the type of keys.
std::vector<KeySource> key_sources(Pass& p, BlockSite at, const Tensor& k, const Tensor& v,
                                   std::optional<std::int64_t> kv_layer = {});

/// Appends this pass's keys and values to the caches of the segments, or of their sources.
void append(Pass& p, BlockSite at, const std::vector<KeySource>& sources);

/// z `[T, n_heads, n]` from q `[T, n_heads, head_dim]` and `sources`, one for each segment of the layer's stack, whose
/// values have n elements. `k` and `v` are the rows that the sources were made from, or a copy of them; they receive
/// the gradients, as do the terms of `relative`, which need a segment without a cache. `sinks`: `[n_heads]`, if the
/// config has one. With a tape, sources must be f32 (else Unsupported) and have no cache. Throws BadInput if a tap
/// attends to a position that has left the cache.
Tensor attend(Pass& p, BlockSite at, const AttendConfig& c, const Mask& mask, const Tensor& q, const Tensor& k,
              const Tensor& v, const std::vector<KeySource>& sources, const RelativeScores& relative = {},
              const Param* sinks = nullptr);

}  // namespace vitrine
