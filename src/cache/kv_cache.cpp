#include "cache/kv_cache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {

void KvCache::Free::operator()(std::byte* p) const { std::free(p); }

KvCache::KvCache(const std::vector<KvLayerConfig>& layers, std::int64_t capacity, DType dtype)
    : capacity_(capacity), dtype_(dtype) {
  for (const KvLayerConfig& config : layers) {
    Layer layer;
    layer.config = config;
    layer.slots = std::min(capacity, config.window.value_or(capacity));
    const std::int64_t sizes[] = {config.n_kv_heads, layer.slots, config.head_dim, size_of(dtype)};
    const std::optional<std::int64_t> size = checked_product(sizes);
    if (!size) throw OutOfCapacity("kv_cache", "a cache of {} tokens is beyond any memory", capacity);
    // calloc leaves large areas untouched until tokens come.
    layer.keys.reset(
        static_cast<std::byte*>(std::calloc(static_cast<std::size_t>(std::max<std::int64_t>(*size, 1)), 1)));
    layer.values.reset(
        static_cast<std::byte*>(std::calloc(static_cast<std::size_t>(std::max<std::int64_t>(*size, 1)), 1)));
    if (!layer.keys || !layer.values) {
      throw OutOfCapacity("kv_cache", "no memory for a cache of {} tokens (twice {} bytes a layer)", capacity,
                          *size);
    }
    layers_.push_back(std::move(layer));
  }
}

std::int64_t KvCache::bytes() const {
  std::int64_t total = 0;
  for (const Layer& layer : layers_) {
    total += 2 * layer.config.n_kv_heads * layer.slots * layer.config.head_dim * size_of(dtype_);
  }
  return total;
}

MatrixView KvCache::slot_range(const Layer& layer, const std::byte* data, std::int64_t kv_head, std::int64_t first,
                               std::int64_t count) const {
  const std::int64_t head_dim = layer.config.head_dim;
  return {data + (kv_head * layer.slots + first) * head_dim * size_of(dtype_), dtype_, count, head_dim, head_dim, 1};
}

KvSpans KvCache::past(int layer_index, std::int64_t kv_head) const {
  const Layer& layer = layers_[static_cast<std::size_t>(layer_index)];
  const std::int64_t held = std::min(length_, layer.slots);
  KvSpans spans;
  for (std::int64_t position = length_ - held; position < length_;) {
    const std::int64_t slot = position % layer.slots;
    const std::int64_t count = std::min(length_ - position, layer.slots - slot);
    spans.push({position, slot_range(layer, layer.keys.get(), kv_head, slot, count),
                slot_range(layer, layer.values.get(), kv_head, slot, count)});
    position += count;
  }
  return spans;
}

void KvCache::append(int layer_index, const std::byte* keys, const std::byte* values, std::int64_t count) {
  Layer& layer = layers_[static_cast<std::size_t>(layer_index)];
  if (count > capacity_ - length_) {
    throw OutOfCapacity("kv_cache", "the cache of {} tokens holds {}, {} more do not fit", capacity_, length_, count);
  }
  const std::int64_t row_bytes = layer.config.head_dim * size_of(dtype_);
  const std::int64_t token_bytes = layer.config.n_kv_heads * row_bytes;
  for (std::int64_t i = std::max<std::int64_t>(0, count - layer.slots); i < count;
       ++i) {  // what would be overwritten stays out
    const std::int64_t slot = (length_ + i) % layer.slots;
    for (std::int64_t head = 0; head < layer.config.n_kv_heads; ++head) {
      const std::int64_t to = (head * layer.slots + slot) * row_bytes;
      const std::int64_t from = i * token_bytes + head * row_bytes;
      std::memcpy(layer.keys.get() + to, keys + from, static_cast<std::size_t>(row_bytes));
      std::memcpy(layer.values.get() + to, values + from, static_cast<std::size_t>(row_bytes));
    }
  }
}

}  // namespace vitrine
