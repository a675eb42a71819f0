#include "cache/kv_cache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {

void KvCache::Free::operator()(void* p) const { std::free(p); }

KvCache::KvCache(const std::vector<KvLayerConfig>& layers, std::int64_t capacity, DType dtype)
    : capacity_(capacity), dtype_(dtype) {
  for (const KvLayerConfig& config : layers) {
    Layer layer;
    layer.config = config;
    layer.slots = std::min(capacity, config.window.value_or(capacity));
    layer.keys = make_store(layer);
    layer.values = make_store(layer);
    layers_.push_back(std::move(layer));
  }
}

KvCache::Store KvCache::make_store(const Layer& layer) const {
  const auto zeros = [&](std::int64_t width, std::int64_t element_bytes) {
    const std::int64_t sizes[] = {layer.config.n_kv_heads, layer.slots, width, element_bytes};
    const std::optional<std::int64_t> size = checked_product(sizes);
    // calloc leaves large areas untouched until tokens come.
    void* const p = size ? std::calloc(static_cast<std::size_t>(std::max<std::int64_t>(*size, 1)), 1) : nullptr;
    if (p == nullptr) throw OutOfCapacity("kv_cache", "no memory for a cache of {} tokens", capacity_);
    return std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(p));
  };
  Store store;
  store.rows = zeros(layer.config.head_dim, size_of(dtype_));
  if (dtype_ == DType::i8) store.scales = zeros(1, sizeof(float));
  return store;
}

std::int64_t KvCache::bytes() const {
  const std::int64_t scale_bytes = dtype_ == DType::i8 ? 4 : 0;
  std::int64_t total = 0;
  for (const Layer& layer : layers_) {
    total += 2 * layer.config.n_kv_heads * layer.slots * (layer.config.head_dim * size_of(dtype_) + scale_bytes);
  }
  return total;
}

KvRows KvCache::slot_range(const Layer& layer, const Store& store, std::int64_t kv_head, std::int64_t first,
                           std::int64_t count) const {
  const std::int64_t head_dim = layer.config.head_dim;
  const std::int64_t row = kv_head * layer.slots + first;
  return {{store.rows.get() + row * head_dim * size_of(dtype_), dtype_, count, head_dim, head_dim, 1},
          store.scales ? store.scale_data() + row : nullptr,
          1};
}

KvSpans KvCache::past(int layer_index, std::int64_t kv_head) const {
  const Layer& layer = layers_[static_cast<std::size_t>(layer_index)];
  const std::int64_t held = std::min(length_, layer.slots);
  KvSpans spans;
  for (std::int64_t position = length_ - held; position < length_;) {
    const std::int64_t slot = position % layer.slots;
    const std::int64_t count = std::min(length_ - position, layer.slots - slot);
    spans.push({position, slot_range(layer, layer.keys, kv_head, slot, count),
                slot_range(layer, layer.values, kv_head, slot, count)});
    position += count;
  }
  return spans;
}

void KvCache::put(const Layer& layer, const Store& store, const KvBatch& batch, std::int64_t token,
                  std::int64_t slot) const {
  const std::int64_t row_bytes = layer.config.head_dim * size_of(dtype_);
  for (std::int64_t head = 0; head < layer.config.n_kv_heads; ++head) {
    const std::int64_t to = head * layer.slots + slot;
    const std::int64_t from = token * layer.config.n_kv_heads + head;
    std::memcpy(store.rows.get() + to * row_bytes, batch.rows + from * row_bytes, static_cast<std::size_t>(row_bytes));
    if (store.scales) std::memcpy(store.scales.get() + to * 4, batch.scales + from, sizeof(float));
  }
}

void KvCache::append(int layer_index, const KvBatch& keys, const KvBatch& values, std::int64_t count) {
  const Layer& layer = layers_[static_cast<std::size_t>(layer_index)];
  if (count > capacity_ - length_) {
    throw OutOfCapacity("kv_cache", "the cache has room for {} more tokens, got {}", capacity_ - length_, count);
  }
  for (std::int64_t i = std::max<std::int64_t>(0, count - layer.slots); i < count;
       ++i) {  // the rest would be overwritten
    put(layer, layer.keys, keys, i, (length_ + i) % layer.slots);
    put(layer, layer.values, values, i, (length_ + i) % layer.slots);
  }
}

}  // namespace vitrine
