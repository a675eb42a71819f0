#include "model/mixers/attention/split_heads.h"

#include "base/error.h"
#include "model/mixers/attention/attention.h"

namespace vitrine {

using Range = RowRange;

std::int64_t first_head(const AttendConfig& c, int n, int r) {
  const std::int64_t group = c.n_heads / c.n_kv_heads;
  if (n <= c.n_kv_heads) return c.n_kv_heads * r / n * group;
  const auto first_part = [&](std::int64_t kv_head) { return n * kv_head / c.n_kv_heads; };
  const std::int64_t kv_head = ((r + 1) * c.n_kv_heads - 1) / n;  // that of part r
  const std::int64_t first = first_part(kv_head), n_parts = first_part(kv_head + 1) - first;
  return kv_head * group + group * (r - first) / n_parts;
}

Range heads_of_rank(const AttendConfig& c, int n, int r) { return {first_head(c, n, r), first_head(c, n, r + 1)}; }

Range kv_heads_of_rank(const AttendConfig& c, int n, int r) {
  const std::int64_t group = c.n_heads / c.n_kv_heads;
  const Range heads = heads_of_rank(c, n, r);
  return {heads.first / group, (heads.end + group - 1) / group};
}

void divide(WeightDivider& divider, AttentionConfig& c, AttentionParams& w) {
  const int n = divider.n_ranks(), r = divider.rank();
  if (n > c.n_heads) {
    throw BadInput("--split", "expected at most as many ranks as query heads ({}), got {}", c.n_heads, n);
  }
  const Range heads = heads_of_rank(c, n, r), kv_heads = kv_heads_of_rank(c, n, r);
  const Range rows = {heads.first * c.head_dim, heads.end * c.head_dim};
  const Range kv_rows = {kv_heads.first * c.head_dim, kv_heads.end * c.head_dim};
  divider.keep_rows(w.wq, rows);
  const std::int64_t width = c.width_of_values();
  if (!c.kv_layer) divider.keep_rows(w.wk, kv_rows);
  if (!c.kv_layer && !c.values_are_keys) divider.keep_rows(w.wv, {kv_heads.first * width, kv_heads.end * width});
  if (c.out_gate) divider.keep_rows(w.w_gate, {heads.first * width, heads.end * width});
  if (c.sink) w.sinks = divider.part_of(w.sinks, heads);
  divider.keep_part(w.wo);
  if (c.qk_norm && c.qk_norm->over == QkNormConfig::Over::head_own_weight) {
    w.q_norm = {divider.part_of(w.q_norm.weight, rows), divider.part_of(w.q_norm.bias, rows)};
    w.k_norm = {divider.part_of(w.k_norm.weight, kv_rows), divider.part_of(w.k_norm.bias, kv_rows)};
  }
  if (c.alibi) {
    const auto first = c.alibi->slopes.begin();
    c.alibi->slopes = std::vector<float>(first + heads.first, first + heads.end);
  }
  c.n_heads = heads.size();
  c.n_kv_heads = kv_heads.size();
}

}  // namespace vitrine
