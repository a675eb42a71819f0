#include "cache/state_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kStateAlignment = 64, kElementBytes = 4;

}  // namespace

bool StateCache::add_layer(std::span<const StateConfig> states) {
  std::vector<Place>& places = layers_.emplace_back();
  next_replays_.emplace_back(states.size());
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

std::int64_t StateCache::packed_bytes() const { return n_elements_ * kElementBytes; }

void StateCache::get_current(std::span<std::byte> to) const {
  for (const std::vector<Place>& places : layers_) {
    for (const Place& place : places) {
      const std::size_t bytes = place.count * kElementBytes;
      std::memcpy(to.data(), current_.get() + place.offset, bytes);
      to = to.subspan(bytes);
    }
  }
}

void StateCache::put_next(std::span<const std::byte> from) const {
  for (const std::vector<Place>& places : layers_) {
    for (const Place& place : places) {
      const std::size_t bytes = place.count * kElementBytes;
      std::memcpy(next_.get() + place.offset, from.data(), bytes);
      from = from.subspan(bytes);
    }
  }
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
  const std::int64_t n =
      std::count_if(snapshots_.begin(), snapshots_.end(), is_own) + (before_.use_count() == 1 ? 1 : 0);
  return (n + (current_.use_count() == 1 ? 1 : 0) + (next_ ? 1 : 0)) * block_bytes_;
}

void StateCache::advance(std::int64_t before, std::int64_t length) {
  if (empty()) return;
  std::swap(current_, next_);
  if (keeps_last_pass_) {
    std::swap(before_, next_);
    pass_begin_ = before;
    replays_ = std::exchange(next_replays_, {});
    for (const std::vector<Place>& places : layers_) next_replays_.emplace_back(places.size());
  }
  if (next_.use_count() > 1) next_ = nullptr;
  if (interval_ > 0 && length % interval_ == 0) snapshot(length);
}

void StateCache::keep_last_pass(bool keeps) {
  keeps_last_pass_ = keeps;
  if (keeps) return;
  forget_last_pass();
  for (std::vector<ReplayState>& layer : next_replays_) std::fill(layer.begin(), layer.end(), nullptr);
}

void StateCache::forget_last_pass() {
  pass_begin_.reset();
  before_ = nullptr;
  replays_.clear();
}

void StateCache::set_replay(int layer, int number, ReplayState replay) {
  place_of(layer, number, StateType::f32);  // throws for an unknown one
  next_replays_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(number)] = std::move(replay);
}

bool StateCache::can_replay(std::int64_t length) const {
  if (!pass_begin_ || length < *pass_begin_) return false;
  if (length == *pass_begin_) return true;
  return std::all_of(replays_.begin(), replays_.end(), [](const std::vector<ReplayState>& layer) {
    return std::all_of(layer.begin(), layer.end(), [](const ReplayState& replay) { return replay != nullptr; });
  });
}

bool StateCache::replay(std::int64_t length, KvMemory& memory) {
  const std::int64_t rows = length - pass_begin_.value();
  if (rows == 0) {
    current_ = before_;
    forget_last_pass();
  } else {
    if (!reserve(memory)) return false;
    for (int layer = 0; layer < static_cast<int>(layers_.size()); ++layer) {
      for (int number = 0; number < static_cast<int>(layers_[static_cast<std::size_t>(layer)].size()); ++number) {
        const auto before = *pass_begin_ > 0 ? elements<float>(before_, layer, number) : std::span<float>();
        replays_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(number)](rows, before,
                                                                                    next<float>(layer, number));
      }
    }
    std::swap(current_, next_);
    if (next_.use_count() > 1) next_ = nullptr;
  }
  std::erase_if(snapshots_, [&](const StateSnapshot& snapshot) { return snapshot.length > length; });
  last_snapshot_ = std::min(last_snapshot_, length);
  return true;
}

void StateCache::copy_from(const StateCache& other) {
  current_ = other.current_;
  snapshots_ = other.snapshots_;
  last_snapshot_ = other.last_snapshot_;
  forget_last_pass();
}

void StateCache::begin(std::int64_t length, StateBlock states) {
  current_ = std::move(states);
  snapshots_.clear();
  last_snapshot_ = length;
  forget_last_pass();
}

void StateCache::snapshot(std::int64_t length) {
  if (!keeps_snapshots() || length <= last_snapshot_) return;
  snapshots_.push_back({length, current_});
  last_snapshot_ = length;
  if (snapshots_.size() <= max_snapshots_) return;
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
  forget_last_pass();
}

}  // namespace vitrine
