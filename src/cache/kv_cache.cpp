#include "cache/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

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

/// The layer's keys and values; null if it has none.
const KvLayer* kv_of(const LayerState& state) {
  const auto kv = [](const auto& layer) -> const KvLayer* {
    if constexpr (std::is_base_of_v<KvLayer, std::decay_t<decltype(layer)>>) return &layer;
    return nullptr;
  };
  return std::visit(kv, state);
}

/// Calls visit(layer) with a layer of keys and values.
template <class Visit>
void visit_kv(const LayerState& state, Visit&& visit) {
  if (const auto* full = std::get_if<FullKv>(&state)) return visit(*full);
  visit(std::get<RingKv>(state));
}

}  // namespace

KvCache::KvCache(const std::vector<CacheLayerConfig>& layers, std::int64_t capacity, DType dtype, KvMemory& memory)
    : capacity_(capacity), dtype_(dtype) {
  for (const CacheLayerConfig& config : layers) {
    std::visit([&](const auto& layer) { add(layer, memory); }, config);
  }
}

void KvCache::add(const KvLayerConfig& config, KvMemory& memory) {
  KvLayer layer{config, std::min(capacity_, config.window.value_or(capacity_)), {}, {}};
  layer.keys = make_store(layer, config.head_dim, memory);
  layer.values = make_store(layer, config.value_dim.value_or(config.head_dim), memory);
  if (layer.slots < capacity_) {
    layers_.emplace_back(RingKv{std::move(layer)});
  } else {
    layers_.emplace_back(FullKv{std::move(layer)});
  }
}

void KvCache::add(const CellLayerConfig& config, KvMemory& memory) {
  const std::int64_t width = config.d_hidden * (config.has_c ? 2 : 1);
  const std::int64_t sizes[] = {2, width, sizeof(float)};
  layers_.emplace_back(CellMemory{width, take(sizes, memory)});
}

void KvCache::add(const IdsLayerConfig& config, KvMemory&) {
  layers_.emplace_back(RecentIds{static_cast<std::size_t>(config.n)});
}

std::shared_ptr<std::byte> KvCache::take(std::span<const std::int64_t> sizes, KvMemory& memory) const {
  const std::optional<std::int64_t> size = checked_product(sizes);
  std::shared_ptr<std::byte> block = size ? memory.take(*size) : nullptr;
  if (!block) throw OutOfCapacity("kv_cache", "no memory for a cache of {} tokens", capacity_);
  return block;
}

KvStore KvCache::make_store(const KvLayer& layer, std::int64_t width, KvMemory& memory) const {
  const std::int64_t rows[] = {layer.config.n_kv_heads, layer.slots, width, size_of(dtype_)};
  KvStore store{width, take(rows, memory), {}};
  const std::int64_t scales[] = {layer.config.n_kv_heads, layer.slots, sizeof(float)};
  if (dtype_ == DType::i8) store.scales = take(scales, memory);
  return store;
}

std::int64_t KvCache::bytes() const {
  const std::int64_t scale_bytes = dtype_ == DType::i8 ? 4 : 0;
  std::int64_t total = 0;
  for (const LayerState& state : layers_) {
    if (const auto* cell = std::get_if<CellMemory>(&state)) total += 2 * cell->width * 4;
    if (const auto* ids = std::get_if<RecentIds>(&state)) total += 2 * static_cast<std::int64_t>(ids->n) * 4;
    const KvLayer* const layer = kv_of(state);
    if (layer == nullptr) continue;
    const std::int64_t row_bytes = (layer->keys.width + layer->values.width) * size_of(dtype_) + 2 * scale_bytes;
    total += layer->config.n_kv_heads * layer->slots * row_bytes;
  }
  return total;
}

KvRows KvCache::slot_range(const KvLayer& layer, const KvStore& store, std::int64_t kv_head, std::int64_t first,
                           std::int64_t count) const {
  const std::int64_t row = kv_head * layer.slots + first;
  return {{store.rows.get() + row * store.width * size_of(dtype_), dtype_, count, store.width, store.width, 1},
          store.scales ? reinterpret_cast<const float*>(store.scales.get()) + row : nullptr,
          1};
}

KvSpans KvCache::past(int layer_index, std::int64_t kv_head) const {
  KvSpans spans;
  const auto add_spans = [&](const auto& layer) {
    const std::int64_t held = std::min(length_, layer.slots);
    for (std::int64_t position = length_ - held; position < length_;) {
      const std::int64_t slot = layer.slot(position);
      const std::int64_t count = std::min(length_ - position, layer.slots - slot);
      spans.push({position, slot_range(layer, layer.keys, kv_head, slot, count),
                  slot_range(layer, layer.values, kv_head, slot, count)});
      position += count;
    }
  };
  visit_kv(layers_[static_cast<std::size_t>(layer_index)], add_spans);
  return spans;
}

void KvCache::put(const KvLayer& layer, const KvStore& store, const KvBatch& batch, std::int64_t token,
                  std::int64_t slot) const {
  const std::int64_t row_bytes = store.width * size_of(dtype_);
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
  visit_kv(layers_[static_cast<std::size_t>(layer_index)], store);
}

/// Copies the first `count` slots of every head.
void KvCache::copy_rows(const KvLayer& layer, const KvStore& from, const KvStore& to, std::int64_t count) const {
  const std::int64_t row_bytes = from.width * size_of(dtype_);
  for (std::int64_t head = 0; head < layer.config.n_kv_heads; ++head) {
    const std::int64_t first = head * layer.slots;
    std::memcpy(to.rows.get() + first * row_bytes, from.rows.get() + first * row_bytes,
                static_cast<std::size_t>(count * row_bytes));
    if (!from.scales) continue;
    std::memcpy(to.scales.get() + first * 4, from.scales.get() + first * 4, static_cast<std::size_t>(count * 4));
  }
}

void KvCache::copy(const KvLayer& from, const KvLayer& to, std::int64_t length) const {
  const std::int64_t count = std::min(length, from.slots);
  copy_rows(from, from.keys, to.keys, count);
  copy_rows(from, from.values, to.values, count);
}

void KvCache::copy_from(const KvCache& other) {
  if (other.capacity_ != capacity_ || other.dtype_ != dtype_ || other.layers_.size() != layers_.size()) {
    throw InternalError("kv_cache", "expected a cache of {} tokens in {} layers to copy", capacity_, layers_.size());
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (const KvLayer* const from = kv_of(other.layers_[i])) copy(*from, *kv_of(layers_[i]), other.length_);
    if (const auto* from = std::get_if<CellMemory>(&other.layers_[i])) {
      const CellMemory& to = std::get<CellMemory>(layers_[i]);
      std::copy_n(from->row(from->current), from->width, to.row(to.current));
    }
    if (const auto* from = std::get_if<RecentIds>(&other.layers_[i])) layers_[i] = *from;
  }
  length_ = other.length_;
  source_ = other.source_;
}

const float* KvCache::cell(int layer) const {
  const CellMemory& memory = std::get<CellMemory>(layers_[static_cast<std::size_t>(layer)]);
  return memory.row(memory.current);
}

float* KvCache::next_cell(int layer) {
  const CellMemory& memory = std::get<CellMemory>(layers_[static_cast<std::size_t>(layer)]);
  return memory.row(1 - memory.current);
}

std::span<const std::int32_t> KvCache::recent_ids() const { return std::get<RecentIds>(layers_.front()).ids; }

void KvCache::append_ids(std::span<const std::int32_t> ids) {
  RecentIds& recent = std::get<RecentIds>(layers_.front());
  recent.next = recent.ids;
  recent.next.insert(recent.next.end(), ids.begin(), ids.end());
  const std::size_t surplus = recent.next.size() - std::min(recent.next.size(), recent.n);
  recent.next.erase(recent.next.begin(), recent.next.begin() + static_cast<std::ptrdiff_t>(surplus));
}

void KvCache::advance(std::int64_t count) {
  length_ += count;
  for (LayerState& state : layers_) {
    if (auto* cell = std::get_if<CellMemory>(&state)) cell->current = 1 - cell->current;
    if (auto* ids = std::get_if<RecentIds>(&state)) ids->ids = std::move(ids->next);
  }
}

bool KvCache::holds_all() const {
  return std::all_of(layers_.begin(), layers_.end(),
                     [](const LayerState& state) { return std::holds_alternative<FullKv>(state); });
}

bool KvCache::truncate(std::int64_t length) {
  if (length < 0 || length > length_) {
    throw InternalError("kv_cache", "expected a length from 0 to {}, got {}", length_, length);
  }
  if (length == length_) return true;
  const auto holds_every_token = [&](const LayerState& state) {
    const KvLayer* const layer = kv_of(state);
    return layer != nullptr && length_ <= layer->slots;
  };
  if (!std::all_of(layers_.begin(), layers_.end(), holds_every_token)) return false;
  length_ = length;
  return true;
}

}  // namespace vitrine
