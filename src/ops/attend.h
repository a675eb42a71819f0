// Attention: what each query reads from the values of the tokens it may see.
//
//   raw[h, t, s]     = (q[t, h] · k[s, g]) · score_scale            g = h / (n_heads / n_kv_heads)
//   scores[h, t, s]  = softcap · tanh(raw / softcap), −∞ where the mask rule hides s from t
//   pattern[h, t, s] = exp(scores − m) / Σ exp(scores − m)          m the largest score of the row
//   z[t, h]          = Σ_s pattern[h, t, s] · v[s, g]               s ascending
//
//            keys ──────────────────────────▶ s                The strip of one query is its row of scores over all
//          ┌───────────────┬─────────┐                         keys it sees. A small tile of strips stands in cache
//  query t │ past (cache)  │ present │  ◀─ strip               at a time, never T × S; every step works on the strip
//          └───────────────┴─────────┘                         where it stands.
//                    ◀── window ──▶t
//
// Backward, from the gradient dz of z, over the same tiles, whose strips are computed once more:
//
//   dpattern[h, t, s] = dz[t, h] · v[s, g]                              dv[s, g] += Σ_t pattern[h, t, s] · dz[t, h]
//   dscores = pattern · (dpattern − Σ_s pattern · dpattern)             draw = dscores · (1 − (scores / softcap)²)
//   dq[t, h] += score_scale · Σ_s draw[h, t, s] · k[s, g]               dk[s, g] += score_scale · Σ_t draw · q[t, h]
//
// When a tap looks at the strips they stand side by side in one [H, T, S] tensor, and the same steps run over it one
// after the other: looking changes no bit, and costs nothing when nobody looks.
// Sources: Vaswani et al. 2017; Shazeer 2019 (shared K/V heads); Beltagy et al. 2020 (windows); Gemma Team 2024
// (softcap).
#pragma once

#include <optional>
#include <vector>

#include "ops/mask.h"
#include "pass/pass.h"

namespace vitrine {

struct AttendConfig {
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  float score_scale = 1.0f;
  std::optional<float> softcap;

  bool operator==(const AttendConfig&) const = default;
};

/// The keys and values that the queries of one segment read: those that its cache holds, then rows of this pass.
struct KeySource {
  const KvCache* cache = nullptr;  ///< Null: nothing comes before the rows of this pass.
  int layer = 0;                   ///< Of the cache.
  std::int64_t position = 0;       ///< Of the first row of this pass, after length() positions of the cache.
  std::int64_t first_row = 0;      ///< Rows [first_row, first_row + length) of k and v.
  std::int64_t length = 0;
  DType dtype = DType::f32;
  KvBatch keys, values;  ///< These rows as the cache stores them.

  std::int64_t n_positions() const { return position + length; }
  /// Everything that queries of one K/V head read, in ascending position.
  KvSpans spans(const AttendConfig& c, std::int64_t kv_head) const;
  /// The rows of this pass.
  KvRows own(const AttendConfig& c, const KvBatch& batch, std::int64_t kv_head) const;
};

/// k and v `[T, n_kv_heads, head_dim]` rounded to what the segments' caches store (Pass::kv_dtype without one): one
/// source for each segment. i8: integers times a scale for each row and head, the largest magnitude / 127.
std::vector<KeySource> key_sources(Pass& p, int layer, const Tensor& k, const Tensor& v);

/// z `[T, n_heads, head_dim]` from q `[T, n_heads, head_dim]` and `sources`, one for each segment of the pass. k, v:
/// the rows that the sources were made of, which receive the gradients. A tape needs f32 sources without a cache.
Tensor attend(Pass& p, BlockSite at, const AttendConfig& c, const Mask& mask, const Tensor& q, const Tensor& k,
              const Tensor& v, const std::vector<KeySource>& sources);

}  // namespace vitrine
