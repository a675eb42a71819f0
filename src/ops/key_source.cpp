#include <algorithm>

#include "ops/attend.h"

namespace vitrine {
namespace {

KvBatch rounded(Pass& p, const Tensor& rows, DType dtype) {
  const std::int64_t n_heads = rows.shape[1], dh = rows.shape[2], n = rows.shape[0] * n_heads;
  if (dtype == DType::f32) return {reinterpret_cast<const std::byte*>(rows.data), nullptr, n_heads, dh};
  std::byte* const stored = p.arena.bytes(rows.count() * size_of(dtype));
  if (dtype != DType::i8) {
    if (!p.shapes_only) p.kernels.narrow(rows.data, rows.count(), dtype, stored);
    return {stored, nullptr, n_heads, dh};
  }
  const Tensor scales = p.tensor({n});
  const Tensor scaled = p.tensor({n, dh});
  p.for_rows(n, 8 * dh, [&](std::int64_t row) {
    const float* const x = rows.data + row * dh;
    p.kernels.scale(x, dh, -1.0f, scaled.row(row));
    const float largest = std::max(p.kernels.max(x, dh), p.kernels.max(scaled.row(row), dh));
    scales.data[row] = largest / 127.0f;
    p.kernels.scale(x, dh, largest > 0 ? 127.0f / largest : 0.0f, scaled.row(row));
    p.kernels.narrow(scaled.row(row), dh, dtype, stored + row * dh);
  });
  return {stored, scales.data, n_heads, dh};
}

}  // namespace

KvRows KeySource::own(const KvBatch& batch, std::int64_t kv_head) const {
  const std::int64_t n = batch.n_heads, width = batch.width;
  return {{batch.rows + kv_head * width * size_of(dtype), dtype, length, width, n * width, 1},
          batch.scales != nullptr ? batch.scales + kv_head : nullptr,
          n};
}

KvSpans KeySource::spans(std::int64_t kv_head) const {
  KvSpans all = cache != nullptr ? cache->past(layer, kv_head) : KvSpans();
  all.append({position, own(keys, kv_head), own(values, kv_head)});
  return all;
}

std::vector<KeySource> key_sources(Pass& p, BlockSite at, const Tensor& k, const Tensor& v) {
  std::vector<KeySource> sources;
  for (const Segment& s : p.segments_of(at.stack)) {
    const KvCache* const cache = at.cross && s.cache != nullptr ? s.cache->source() : s.cache;
    const DType dtype = cache != nullptr ? cache->dtype() : p.kv_dtype;
    const bool is_read = at.cross && s.source < 0;  // by an earlier pass
    const Segment none{0, 0, at.cross && cache != nullptr ? cache->length() : 0};
    const Segment& rows = is_read ? none : at.cross ? p.sources[static_cast<std::size_t>(s.source)] : s;
    KeySource source{cache, at.layer, rows.position, rows.first_row, rows.length, dtype, {}, {}};
    source.n_padding = rows.n_padding;
    if (!is_read) source.keys = rounded(p, k.row_range(rows.first_row, rows.length), dtype);
    if (!is_read) source.values = rounded(p, v.row_range(rows.first_row, rows.length), dtype);
    sources.push_back(source);
  }
  return sources;
}

void append(Pass& p, BlockSite at, const std::vector<KeySource>& sources) {
  const std::vector<Segment>& segments = p.segments_of(at.stack);
  for (std::size_t i = 0; i < sources.size() && !p.shapes_only; ++i) {
    const KeySource& source = sources[i];
    if (source.cache == nullptr || source.length == 0) continue;
    KvCache* const cache = at.cross ? segments[i].cache->source() : segments[i].cache;
    cache->append(at.layer, source.keys, source.values, source.length);
  }
}

}  // namespace vitrine
