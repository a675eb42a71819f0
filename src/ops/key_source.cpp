#include <algorithm>

#include "ops/attend.h"

namespace vitrine {
namespace {

KvBatch rounded(Pass& p, const Tensor& rows, KvType type) {
  const std::int64_t n_heads = rows.shape[1], width = rows.shape[2], n = rows.shape[0] * n_heads;
  if (type == KvType::f32) return {reinterpret_cast<const std::byte*>(rows.data), type, n_heads, width};
  const std::int64_t bytes = kv_row_bytes(type, width);
  std::byte* const stored = p.arena.bytes(n * bytes);
  if (p.shapes_only) return {stored, type, n_heads, width};
  if (!is_integer(type)) {
    p.kernels.narrow(rows.data, rows.count(), dtype_of(type), stored);
    return {stored, type, n_heads, width};
  }
  const ArenaScope scope(p.arena);
  const Tensor rotated = p.tensor({n, width});
  p.for_rows(n, 16 * width, [&](std::int64_t row) {
    p.kernels.kv.rotate(rows.data + row * width, width, rotated.row(row));
    p.kernels.kv.round(rotated.row(row), width, type, stored + row * bytes);
  });
  return {stored, type, n_heads, width};
}

}  // namespace

KvRows KeySource::own(const KvBatch& batch, std::int64_t kv_head) const {
  const std::int64_t bytes = kv_row_bytes(batch.type, batch.width);
  return {batch.rows + kv_head * bytes, batch.type, length, batch.width, batch.n_heads * bytes};
}

KvSpans KeySource::spans(std::int64_t kv_head) const {
  KvSpans all = cache != nullptr ? cache->past(layer, kv_head) : KvSpans();
  all.append({position, own(keys, kv_head), own(values, kv_head)});
  return all;
}

std::vector<KeySource> key_sources(Pass& p, BlockSite at, const Tensor& k, const Tensor& v,
                                   std::optional<std::int64_t> kv_layer) {
  std::vector<KeySource> sources;
  const int layer = static_cast<int>(kv_layer.value_or(at.layer));
  for (const Segment& s : p.segments_of(at.stack)) {
    const KvCache* const cache = at.cross && s.cache != nullptr ? s.cache->source() : s.cache;
    const KvTypes types = cache != nullptr ? cache->types() : p.kv_types;
    const bool is_read = at.cross && s.source < 0;  // by an earlier pass
    const Segment none{0, 0, at.cross && cache != nullptr ? cache->length() : 0};
    const Segment& rows = is_read ? none : at.cross ? p.sources[static_cast<std::size_t>(s.source)] : s;
    KeySource source{
        cache, layer, rows.position, rows.first_row, rows.length, {nullptr, types.keys}, {nullptr, types.values}};
    source.n_padding = rows.n_padding;
    if (!is_read) source.keys = rounded(p, k.row_range(rows.first_row, rows.length), types.keys);
    if (!is_read) source.values = rounded(p, v.row_range(rows.first_row, rows.length), types.values);
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
