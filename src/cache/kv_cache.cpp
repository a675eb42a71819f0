#include "cache/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kLine = 64;

/// Forgets all blocks from number `n` on.
void keep_first(std::vector<KvBlock>& blocks, std::size_t n) { blocks.resize(std::min(n, blocks.size())); }

}  // namespace

KvCache::KvCache(const std::vector<CacheLayerConfig>& layers, std::int64_t capacity, KvTypes types, KvMemory& memory,
                 std::int64_t block_length)
    : capacity_(capacity), block_length_(std::max<std::int64_t>(1, block_length)), types_(types), memory_(&memory) {
  for (const CacheLayerConfig& layer : layers) {
    layers_.push_back(layer.kv ? std::optional(make_layer(*layer.kv)) : std::nullopt);
    if (states_.add_layer(layer.states)) continue;
    throw OutOfCapacity("kv_cache", "no memory for the states of layer {}", layers_.size() - 1);
  }
}

KvLayer KvCache::make_layer(const KvLayerConfig& config) {
  constexpr std::int64_t kLargestElement = 12;  // more than the bytes of a row of one element
  const std::int64_t value_dim = config.value_dim.value_or(config.head_dim);
  const std::int64_t rows[] = {config.n_kv_heads, std::max(capacity_, block_length_), 2,
                               std::max(config.head_dim, value_dim), kLargestElement};
  const bool is_negative = std::min({capacity_, config.head_dim, value_dim, config.window.value_or(0)}) < 0;
  if (is_negative || !checked_product(rows)) {
    throw OutOfCapacity("kv_cache", "no memory for a cache of {} tokens", capacity_);
  }
  const auto same = [&](const KvGroup& group) {
    return group.window == config.window && group.chunked == config.chunked;
  };
  auto group = std::find_if(groups_.begin(), groups_.end(), same);
  if (group == groups_.end()) group = groups_.insert(group, {config.window, config.chunked});
  KvLayer layer{static_cast<std::size_t>(group - groups_.begin()), config.n_kv_heads, config.token_bytes(types_),
                config.one_row};
  layer.keys = add_place(*group, config.n_kv_heads, config.head_dim, types_.keys);
  layer.values = config.one_row ? layer.keys.beginnings(value_dim)
                                : add_place(*group, config.n_kv_heads, value_dim, types_.values);
  return layer;
}

/// Extends the blocks of a group by keys or values of one layer.
KvPlace KvCache::add_place(KvGroup& group, std::int64_t n_kv_heads, std::int64_t width, KvType type) const {
  const KvPlace place{group.block_bytes, width, type};
  group.block_bytes += round_up(n_kv_heads * block_length_ * place.row_bytes(), kLine);
  return place;
}

const KvLayer& KvCache::kv_layer(int layer) const {
  const std::optional<KvLayer>& kv = layers_[static_cast<std::size_t>(layer)];
  if (!kv) throw InternalError("kv_cache", "layer {} has no keys and values", layer);
  return *kv;
}

/// Memory of a block. Snapshots give way to it.
KvBlock KvCache::take(std::int64_t bytes) {
  KvBlock block = memory_->take(bytes);
  while (!block && states_.drop_first_snapshot()) block = memory_->take(bytes);
  if (!block) throw OutOfCapacity("kv_cache", "no memory for a cache of {} tokens", capacity_);
  return block;
}

void KvCache::reserve_states() {
  while (!states_.reserve(*memory_)) {
    if (states_.drop_first_snapshot()) continue;
    throw OutOfCapacity("kv_cache", "no memory for the states of a cache of {} tokens", capacity_);
  }
}

std::int64_t KvCache::bytes() const {
  std::int64_t total = 2 * 4 * states_.n_elements();  // the current and the next
  for (const std::optional<KvLayer>& layer : layers_) {
    if (!layer) continue;
    const std::int64_t kept = std::min(capacity_, groups_[layer->group].window.value_or(capacity_));
    total += kept * layer->token_bytes;
  }
  return total;
}

/// The number of blocks that hold `length` tokens.
std::size_t KvCache::n_blocks(std::int64_t length) const {
  return static_cast<std::size_t>((length + block_length_ - 1) / block_length_);
}

KvPlace KvCache::place_of(const KvPlace& place, std::int64_t kv_head) const {
  KvPlace own = place;
  own.offset += kv_head * block_length_ * place.row_bytes();
  return own;
}

KvSpans KvCache::past(int layer_index, std::int64_t kv_head) const {
  const KvLayer& layer = kv_layer(layer_index);
  const KvGroup& group = groups_[layer.group];
  const KvPlace keys = place_of(layer.keys, kv_head), values = place_of(layer.values, kv_head);
  const KvBlocks blocks{group.blocks.data(), block_length_, keys, values};
  return {blocks, group.first_kept(length_), length_};
}

/// Copies the first `count` slots of all layers of a group.
void KvCache::copy_slots(const KvBlock& from, const KvBlock& to, std::size_t group, std::int64_t count) const {
  for (const std::optional<KvLayer>& layer : layers_) {
    if (!layer || layer->group != group) continue;
    for (std::int64_t head = 0; head < layer->n_kv_heads; ++head) {
      for (const KvPlace& own : {place_of(layer->keys, head), place_of(layer->values, head)}) {
        const auto bytes = static_cast<std::size_t>(count * own.row_bytes());
        std::memcpy(to.get() + own.offset, from.get() + own.offset, bytes);
      }
    }
  }
}

/// Frees the blocks of a group that lie before the window, and takes those that the tokens before `end` need.
void KvCache::reserve(std::size_t number, std::int64_t end) {
  KvGroup& group = groups_[number];
  const auto first = static_cast<std::size_t>(group.first_kept(length_) / block_length_);
  for (std::size_t i = std::min(first, group.blocks.size()); i > 0 && group.blocks[i - 1]; --i)
    group.blocks[i - 1] = {};
  const std::int64_t in_last = length_ % block_length_;
  const auto last = static_cast<std::size_t>(length_ / block_length_);
  if (in_last > 0 && end > length_ && last < group.blocks.size() && group.blocks[last].use_count() > 1) {
    KvBlock own = take(group.block_bytes);
    copy_slots(group.blocks[last], own, number, in_last);
    group.blocks[last] = std::move(own);
  }
  while (group.blocks.size() < n_blocks(end)) group.blocks.push_back(take(group.block_bytes));
}

void KvCache::reserve(std::int64_t count) {
  if (count > capacity_ - length_) {
    throw OutOfCapacity("kv_cache", "the cache has space for {} more tokens, got {}", capacity_ - length_, count);
  }
  try {
    for (std::size_t i = 0; i < groups_.size(); ++i) reserve(i, length_ + count);
    reserve_states();
  } catch (...) {
    drop_reserved();
    throw;
  }
}

std::int64_t KvCache::missing_bytes(std::int64_t count) const {
  std::int64_t total = states_.missing_bytes();
  for (const KvGroup& group : groups_) {
    const auto n = static_cast<std::int64_t>(n_blocks(length_ + count)) - std::ssize(group.blocks);
    const auto last = static_cast<std::size_t>(length_ / block_length_);
    // An empty cache may still begin with a block that others share.
    const bool copies = length_ == 0 || (length_ % block_length_ > 0 && last < group.blocks.size() &&
                                         group.blocks[last].use_count() > 1);
    total += (std::max<std::int64_t>(0, n) + (copies ? 1 : 0)) * group.block_bytes;
  }
  return total;
}

std::int64_t KvCache::full_bytes(std::int64_t chunk) const {
  std::int64_t total = 2 * states_.block_bytes();
  for (const KvGroup& group : groups_) {
    auto n = static_cast<std::int64_t>(n_blocks(capacity_));
    if (group.window) n = std::min(n, static_cast<std::int64_t>(n_blocks(*group.window + chunk)) + 1);
    total += (n + 1) * group.block_bytes;
  }
  return total;
}

std::int64_t KvCache::own_bytes() const {
  std::int64_t total = states_.own_bytes();
  for (const KvGroup& group : groups_) {
    const auto n = std::count_if(group.blocks.begin(), group.blocks.end(),
                                 [](const KvBlock& block) { return block.use_count() == 1; });
    total += n * group.block_bytes;
  }
  return total;
}

void KvCache::drop_reserved() {
  for (KvGroup& group : groups_) keep_first(group.blocks, n_blocks(length_));
}

/// Copies the row of a token, for all heads, to a slot of a block.
void KvCache::put(std::byte* block, const KvPlace& place, std::int64_t slot, const KvBatch& batch, std::int64_t n_heads,
                  std::int64_t token) const {
  const std::int64_t bytes = place.row_bytes();
  for (std::int64_t head = 0; head < n_heads; ++head) {
    const std::int64_t from = token * n_heads + head, to = head * block_length_ + slot;
    std::memcpy(block + place.offset + to * bytes, batch.rows + from * bytes, static_cast<std::size_t>(bytes));
  }
}

void KvCache::append(int layer_index, const KvBatch& keys, const KvBatch& values, std::int64_t count) {
  reserve(count);
  const KvLayer& layer = kv_layer(layer_index);
  store(layer, layer.keys, length_, keys, count);
  if (!layer.one_row) store(layer, layer.values, length_, values, count);
}

/// Copies the rows of `count` positions from `first` on, whose blocks the cache has.
void KvCache::store(const KvLayer& layer, const KvPlace& place, std::int64_t first, const KvBatch& batch,
                    std::int64_t count) {
  const KvGroup& group = groups_[layer.group];
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* const block = group.blocks[static_cast<std::size_t>((first + i) / block_length_)].get();
    put(block, place, (first + i) % block_length_, batch, layer.n_kv_heads, i);
  }
}

void KvCache::begin(std::int64_t length) {
  if (length_ > 0 || length < 0) throw InternalError("kv_cache", "expected an empty cache to begin after {}", length);
  for (KvGroup& group : groups_) {
    group.blocks.assign(static_cast<std::size_t>(group.first_kept(length) / block_length_), nullptr);
  }
  reserve(length);
  length_ = length;
}

void KvCache::set_past_keys(int layer_index, const KvBatch& keys) {
  const KvLayer& layer = kv_layer(layer_index);
  const std::int64_t first = groups_[layer.group].first_kept(length_);
  store(layer, layer.keys, first, keys, length_ - first);
}

void KvCache::set_past_values(int layer_index, const KvBatch& values) {
  const KvLayer& layer = kv_layer(layer_index);
  const std::int64_t first = groups_[layer.group].first_kept(length_);
  store(layer, layer.values, first, values, length_ - first);
}

void KvCache::copy_from(const KvCache& other) {
  if (other.capacity_ != capacity_ || other.types_ != types_ || other.layers_.size() != layers_.size() ||
      other.block_length_ != block_length_) {
    throw InternalError("kv_cache", "expected a cache of {} tokens in {} layers to copy", capacity_, layers_.size());
  }
  groups_ = other.groups_;
  states_.copy_from(other.states_);
  length_ = other.length_;
  source_ = other.source_;
  drop_reserved();
}

void KvCache::advance(std::int64_t count) {
  reserve(count);  // without effect, except in a dry run, which appends nothing
  states_.advance(length_, length_ + count);
  length_ += count;
}

bool KvCache::holds_all() const {
  const auto keeps_all = [&](const KvGroup& group) { return group.window.value_or(capacity_) >= capacity_; };
  return !has_states() && std::all_of(groups_.begin(), groups_.end(), keeps_all);
}

/// Whether the groups have the blocks that a sequence of `length` tokens reads.
bool KvCache::holds_blocks(std::int64_t length) const {
  return std::all_of(groups_.begin(), groups_.end(), [&](const KvGroup& group) {
    const auto first = group.blocks.begin() + group.first_kept(length) / block_length_;
    const auto end = group.blocks.begin() + static_cast<std::ptrdiff_t>(n_blocks(length));
    return std::all_of(first, end, [](const KvBlock& block) { return block != nullptr; });
  });
}

/// The greatest length, at most `length`, to which the cache can return.
std::int64_t KvCache::nearest(std::int64_t length) const {
  if (!has_states()) return holds_blocks(length) ? length : 0;
  const auto can_return = [&](const StateSnapshot& snapshot) {
    return snapshot.length <= length && holds_blocks(snapshot.length);
  };
  const auto last = std::find_if(snapshots().rbegin(), snapshots().rend(), can_return);
  return last != snapshots().rend() ? last->length : 0;
}

std::int64_t KvCache::truncate(std::int64_t length) {
  if (length < 0 || length > length_) {
    throw InternalError("kv_cache", "expected a length from 0 to {}, got {}", length_, length);
  }
  if (length == length_) return length;
  if (has_states() && states_.can_replay(length) && holds_blocks(length) && states_.replay(length, *memory_)) {
    length_ = length;
    drop_reserved();
    return length;
  }
  length_ = nearest(length);
  if (has_states()) states_.return_to(length_);
  drop_reserved();
  return length_;
}

void KvCache::share(std::int64_t length, std::vector<std::vector<KvBlock>> blocks, StateBlock states) {
  if (has_states() != (states != nullptr) || length > capacity_ || blocks.size() != groups_.size()) {
    throw InternalError("kv_cache", "expected blocks of {} groups for at most {} tokens, got {} for {}", groups_.size(),
                        capacity_, blocks.size(), length);
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].blocks = std::move(blocks[i]);
  states_.begin(length, std::move(states));
  length_ = length;
}

}  // namespace vitrine
