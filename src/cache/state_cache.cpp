#include "cache/state_cache.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kStateAlignment = 64, kElementBytes = 4;

}  // namespace

bool StateCache::add_layer(std::span<const StateConfig> states) {
  std::vector<Place>& places = layers_.emplace_back();
  for (const StateConfig& state : states) {
    const std::int64_t count = checked_product(state.shape.sizes()).value_or(-1);
    const std::optional<std::int64_t> bytes = checked_mul(count, kElementBytes);
    const std::optional<std::int64_t> total =
        bytes ? checked_add(*bytes, block_bytes_ + kStateAlignment) : std::nullopt;
    if (!total || !checked_mul(*total, 2)) return false;  // current and next
    places.push_back({block_bytes_, static_cast<std::size_t>(count), state.type});
    n_elements_ += count;
    block_bytes_ += round_up(*bytes, kStateAlignment);
  }
  return true;
}

const StateCache::Place& StateCache::place_of(int layer, int number, StateType type) const {
  const std::vector<Place>& places = layers_.at(static_cast<std::size_t>(layer));
  const auto n = static_cast<std::size_t>(number);
  if (n >= places.size() || places[n].type != type) {
    throw InternalError("state_cache", "layer {} has no state {} of this type", layer, number);
  }
  return places[n];
}

bool StateCache::reserve(KvMemory& memory) {
  if (empty() || next_) return true;
  next_ = memory.take(block_bytes_);
  return next_ != nullptr;
}

std::int64_t StateCache::missing_bytes() const {
  return ((current_.use_count() == 1 ? 0 : 1) + (next_ ? 0 : 1)) * block_bytes_;
}

std::int64_t StateCache::own_bytes() const {
  const auto is_own = [](const StateSnapshot& snapshot) { return snapshot.states.use_count() == 1; };
  const std::int64_t n = std::count_if(snapshots_.begin(), snapshots_.end(), is_own);
  return (n + (current_.use_count() == 1 ? 1 : 0) + (next_ ? 1 : 0)) * block_bytes_;
}

void StateCache::advance(std::int64_t length, std::int64_t interval) {
  if (empty()) return;
  std::swap(current_, next_);
  if (next_.use_count() > 1) next_ = nullptr;
  if (length % interval == 0) snapshot(length);
}

void StateCache::copy_from(const StateCache& other) {
  current_ = other.current_;
  snapshots_ = other.snapshots_;
  last_snapshot_ = other.last_snapshot_;
}

void StateCache::begin(std::int64_t length, StateBlock states) {
  current_ = std::move(states);
  snapshots_.clear();
  last_snapshot_ = length;
}

void StateCache::snapshot(std::int64_t length) {
  if (!keeps_snapshots() || length <= last_snapshot_) return;
  snapshots_.push_back({length, current_});
  last_snapshot_ = length;
  if (snapshots_.size() <= kMaxSnapshots) return;
  // The gap that a snapshot leaves, divided by its distance from the end.
  const auto gap = [&](std::size_t i) {
    const std::int64_t before = i > 0 ? snapshots_[i - 1].length : 0;
    return as_double(snapshots_[i + 1].length - before) / as_double(length - before);
  };
  std::size_t least = 0;
  for (std::size_t i = 1; i + 1 < snapshots_.size(); ++i) least = gap(i) < gap(least) ? i : least;
  snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(least));
}

void StateCache::drop_snapshots(std::int64_t length) {
  std::erase_if(snapshots_, [&](const StateSnapshot& snapshot) { return snapshot.length <= length; });
}

bool StateCache::drop_first_snapshot() {
  if (snapshots_.empty()) return false;
  snapshots_.erase(snapshots_.begin());
  return true;
}

void StateCache::return_to(std::int64_t length) {
  std::erase_if(snapshots_, [&](const StateSnapshot& snapshot) { return snapshot.length > length; });
  current_ = length > 0 ? snapshots_.back().states : nullptr;
  last_snapshot_ = length;
}

}  // namespace vitrine
