#include <algorithm>

#include "ops/attend.h"

namespace vitrine {
namespace {

/// The rows in the type, integers after `rotate(from, to)`.
template <class Rotate>
KvBatch rounded(Pass& p, const Tensor& rows, KvType type, Rotate&& rotate) {
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
    rotate(rows.data + row * width, rotated.row(row));
    p.kernels.kv.round(rotated.row(row), width, type, stored + row * bytes);
  });
  return {stored, type, n_heads, width};
}

}  // namespace

void KeySource::rotate_key(const Kernels& kernels, const float* from, std::int64_t n, float* to) const {
  const std::int64_t first = value_in_key.value_or(n);
  kernels.kv.rotate(from, first, to);
  if (first < n) kernels.kv.rotate(from + first, n - first, to + first);
}

KvRows KeySource::own(const KvBatch& batch, std::int64_t kv_head) const {
  const std::int64_t bytes = batch.row_bytes();
  return {batch.rows + kv_head * bytes, batch.type, length, batch.width, batch.n_heads * bytes};
}

KvSpans KeySource::spans(std::int64_t kv_head) const {
  KvSpans all = cache != nullptr ? cache->past(layer, kv_head) : KvSpans();
  all.append({position, own(keys, kv_head), own(values, kv_head)});
  return all;
}

namespace {

/// Sets the rows of k and v that are the source's.
void set_rows(Pass& p, const Tensor& k, const Tensor& v, KeySource& source) {
  const std::int64_t n_keys = k.shape[2], n_values = v.shape[2];
  source.keys = rounded(p, k.row_range(source.first_row, source.length), source.keys.type,
                        [&](const float* from, float* to) { source.rotate_key(p.kernels, from, n_keys, to); });
  if (source.value_in_key) {
    source.values = source.keys.beginnings(n_values);
    return;
  }
  source.values = rounded(p, v.row_range(source.first_row, source.length), source.values.type,
                          [&](const float* from, float* to) { p.kernels.kv.rotate(from, n_values, to); });
}

}  // namespace

std::vector<KeySource> key_sources(Pass& p, BlockSite at, const Tensor& k, const Tensor& v,
                                   std::optional<std::int64_t> kv_layer) {
  const bool is_one_row = v.data == k.data && v.row_size() < k.row_size();
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
    if (is_one_row) source.value_in_key = v.shape[2];
    if (!is_read) set_rows(p, k, v, source);
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
