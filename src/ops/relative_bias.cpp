#include "ops/relative_bias.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/math.h"
#include "ops/op_kind.h"

namespace vitrine {

std::int64_t bucket_of(const RelativeBiasConfig& c, std::int64_t distance) {
  const std::int64_t n = c.bidirectional ? c.n_buckets / 2 : c.n_buckets;
  const std::int64_t first = c.bidirectional && distance > 0 ? n : 0;
  const std::int64_t away = c.bidirectional ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
  const std::int64_t n_exact = n / 2;
  if (away < n_exact) return first + away;
  const auto log = [](float x) { return static_cast<float>(math::log(static_cast<double>(x))); };
  const float ratio = static_cast<float>(away) / static_cast<float>(n_exact);
  const auto whole = static_cast<float>(math::log(static_cast<double>(c.max_distance) / static_cast<double>(n_exact)));
  const float step = log(ratio) / whole * static_cast<float>(n - n_exact);
  return first + std::min(n - 1, n_exact + static_cast<std::int64_t>(step));
}

Tensor relative_bias(Pass& p, const RelativeBiasConfig& c, const Param& table, Stack stack) {
  std::int64_t n = 0;
  for (const Segment& s : p.segments_of(stack)) n = std::max(n, s.position + s.length);
  const std::int64_t n_heads = table.view.cols, n_distances = 2 * n - 1;
  std::vector<std::int64_t> buckets;
  for (std::int64_t i = 0; i < n_distances && !p.shapes_only; ++i) buckets.push_back(bucket_of(c, i - (n - 1)));

  const Tensor bias = p.tensor({n_heads, n_distances});
  const Tensor row = p.tensor({c.n_buckets, n_heads});
  p.for_rows(c.n_buckets, n_heads, [&](std::int64_t b) { p.widen(table.view, b, n_heads, row.row(b)); });
  p.for_rows(n_heads, n_distances, [&](std::int64_t h) {
    for (std::int64_t i = 0; i < n_distances; ++i) bias.row(h)[i] = row.row(buckets[static_cast<std::size_t>(i)])[h];
  });
  p.record(OpKind::relative_bias, {}, bias, [&p, &table, bias, buckets] {
    const Tensor dtable = p.grad(table), dbias = p.grad(bias);
    if (dtable.data == nullptr) return;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      for (std::int64_t h = 0; h < dbias.rows(); ++h) dtable.row(buckets[i])[h] += dbias.row(h)[i];
    }
  });
  if (p.ledger != nullptr) p.ledger->looks_up("rel_bias", c.n_buckets * n_heads);
  return bias;
}

}  // namespace vitrine
