#include "cache/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {

KvMemory& system_kv_memory() {
  class SystemMemory : public KvMemory {
    std::shared_ptr<std::byte> take(std::int64_t n) override { return take_memory(n); }
  };
  static SystemMemory memory;
  return memory;
}

namespace {

const KvLayer& base_of(const LayerState& state) {
  return std::visit([](const auto& layer) -> const KvLayer& { return layer; }, state);
}

}  // namespace

KvCache::KvCache(const std::vector<KvLayerConfig>& layers, std::int64_t capacity, DType dtype, KvMemory& memory)
    : capacity_(capacity), dtype_(dtype) {
  for (const KvLayerConfig& config : layers) {
    KvLayer layer{config, std::min(capacity, config.window.value_or(capacity)), {}, {}};
    layer.keys = make_store(layer, memory);
    layer.values = make_store(layer, memory);
    if (layer.slots < capacity) {
      layers_.emplace_back(RingKv{std::move(layer)});
    } else {
      layers_.emplace_back(FullKv{std::move(layer)});
    }
  }
}

KvStore KvCache::make_store(const KvLayer& layer, KvMemory& memory) const {
  const auto take = [&](std::int64_t width, std::int64_t element_bytes) {
    const std::int64_t sizes[] = {layer.config.n_kv_heads, layer.slots, width, element_bytes};
    const std::optional<std::int64_t> size = checked_product(sizes);
    std::shared_ptr<std::byte> block = size ? memory.take(*size) : nullptr;
    if (!block) throw OutOfCapacity("kv_cache", "no memory for a cache of {} tokens", capacity_);
    return block;
  };
  KvStore store;
  store.rows = take(layer.config.head_dim, size_of(dtype_));
  if (dtype_ == DType::i8) store.scales = take(1, sizeof(float));
  return store;
}

std::int64_t KvCache::bytes() const {
  const std::int64_t scale_bytes = dtype_ == DType::i8 ? 4 : 0;
  std::int64_t total = 0;
  for (const LayerState& state : layers_) {
    const KvLayer& layer = base_of(state);
    total += 2 * layer.config.n_kv_heads * layer.slots * (layer.config.head_dim * size_of(dtype_) + scale_bytes);
  }
  return total;
}

KvRows KvCache::slot_range(const KvLayer& layer, const KvStore& store, std::int64_t kv_head, std::int64_t first,
                           std::int64_t count) const {
  const std::int64_t head_dim = layer.config.head_dim;
  const std::int64_t row = kv_head * layer.slots + first;
  return {{store.rows.get() + row * head_dim * size_of(dtype_), dtype_, count, head_dim, head_dim, 1},
          store.scales ? reinterpret_cast<const float*>(store.scales.get()) + row : nullptr,
          1};
}

KvSpans KvCache::past(int layer_index, std::int64_t kv_head) const {
  KvSpans spans;
  const auto add = [&](const auto& layer) {
    const std::int64_t held = std::min(length_, layer.slots);
    for (std::int64_t position = length_ - held; position < length_;) {
      const std::int64_t slot = layer.slot(position);
      const std::int64_t count = std::min(length_ - position, layer.slots - slot);
      spans.push({position, slot_range(layer, layer.keys, kv_head, slot, count),
                  slot_range(layer, layer.values, kv_head, slot, count)});
      position += count;
    }
  };
  std::visit(add, layers_[static_cast<std::size_t>(layer_index)]);
  return spans;
}

void KvCache::put(const KvLayer& layer, const KvStore& store, const KvBatch& batch, std::int64_t token,
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
  if (count > capacity_ - length_) {
    throw OutOfCapacity("kv_cache", "the cache has space for {} more tokens, got {}", capacity_ - length_, count);
  }
  const auto store = [&](const auto& layer) {
    // Skips tokens that later tokens of this batch would overwrite.
    for (std::int64_t i = std::max<std::int64_t>(0, count - layer.slots); i < count; ++i) {
      put(layer, layer.keys, keys, i, layer.slot(length_ + i));
      put(layer, layer.values, values, i, layer.slot(length_ + i));
    }
  };
  std::visit(store, layers_[static_cast<std::size_t>(layer_index)]);
}

/// Copies the first `count` slots of every head.
void KvCache::copy_rows(const KvLayer& layer, const KvStore& from, const KvStore& to, std::int64_t count) const {
  const std::int64_t row_bytes = layer.config.head_dim * size_of(dtype_);
  for (std::int64_t head = 0; head < layer.config.n_kv_heads; ++head) {
    const std::int64_t first = head * layer.slots;
    std::memcpy(to.rows.get() + first * row_bytes, from.rows.get() + first * row_bytes,
                static_cast<std::size_t>(count * row_bytes));
    if (!from.scales) continue;
    std::memcpy(to.scales.get() + first * 4, from.scales.get() + first * 4, static_cast<std::size_t>(count * 4));
  }
}

void KvCache::copy_from(const KvCache& other) {
  if (other.capacity_ != capacity_ || other.dtype_ != dtype_ || other.layers_.size() != layers_.size()) {
    throw InternalError("kv_cache", "expected a cache of {} tokens in {} layers to copy", capacity_, layers_.size());
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const KvLayer &to = base_of(layers_[i]), &from = base_of(other.layers_[i]);
    const std::int64_t count = std::min(other.length_, from.slots);
    copy_rows(from, from.keys, to.keys, count);
    copy_rows(from, from.values, to.values, count);
  }
  length_ = other.length_;
  source_ = other.source_;
}

}  // namespace vitrine
