// The states of a sequence's layers: what a layer keeps of all earlier tokens in a fixed number of elements, in place
// of their keys and values. Examples: h and c of an LSTM, a matrix for each head, the last inputs of a convolution, the
// ids of the last tokens.
//
// The states of all layers after one token are in one block of memory. A pass reads the current block and writes the
// next one, so a pass that fails changes nothing. Blocks are reference-counted: copies and snapshots share them.
//
//   length    0 ── pass ──▶ 256 ── pass ──▶ 300 ── pass ──▶ …
//                           [  ]            [  ] current    [  ] next
//                            └ snapshot
//
// A cache that keeps its last pass also returns into it: the layers give what computes a state within the pass from the
// state before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cache/kv_memory.h"
#include "tensor/tensor.h"

namespace vitrine {

enum class StateType : std::uint8_t { f32, i32 };

/// A tensor of a layer's state.
struct StateConfig {
  std::string_view name;  ///< Within the layer; a literal.
  Shape shape;
  StateType type = StateType::f32;
  /// The shape at its site and in files, which have the last two sizes in the other order; absent: `shape`.
  std::optional<Shape> shown{};
};

/// The states of all layers after one token.
using StateBlock = std::shared_ptr<std::byte>;

/// The states after `length` tokens.
struct StateSnapshot {
  std::int64_t length = 0;
  StateBlock states;
};

/// Computes a state after the first `rows` tokens of a pass, at least one, from that before the pass, which is empty at
/// the beginning of the text.
using ReplayState = std::function<void(std::int64_t rows, std::span<const float> before, std::span<float> to)>;

class StateCache {
 public:
  /// The most snapshots that are kept, unless the caller chooses another number. Of more, those are dropped that leave
  /// the smallest gaps, relative to their distance from the end.
  static constexpr std::size_t kMaxSnapshots = 16;

  /// Adds the states of the next layer. Returns false if the bytes of all states do not fit in 62 bits.
  bool add_layer(std::span<const StateConfig> states);
  bool empty() const { return n_elements_ == 0; }
  std::int64_t n_elements() const { return n_elements_; }
  std::int64_t block_bytes() const { return block_bytes_; }

  /// Elements of a state, float or std::int32_t: those of the current block, which are undefined before the first
  /// token, and those of the next one, which reserve() must have taken.
  template <class T>
  std::span<const T> current(int layer, int number) const {
    return elements<T>(current_, layer, number);
  }
  template <class T>
  std::span<T> next(int layer, int number) const {
    return elements<T>(next_, layer, number);
  }

  /// The bytes of all elements without the gaps between states, and copies of them: from the current block, to the
  /// next one, which reserve() must have taken.
  std::int64_t packed_bytes() const;
  void get_current(std::span<std::byte> to) const;
  void put_next(std::span<const std::byte> from) const;

  /// Takes the next block, unless it is there. Returns false if there is no memory.
  bool reserve(KvMemory& memory);
  /// The bytes that all later calls of reserve() take at most at a time.
  std::int64_t missing_bytes() const;
  /// The bytes of the blocks that no other owner shares.
  std::int64_t own_bytes() const;
  /// Makes the next block, that of `length` tokens, the current one, which is that of `before`. Keeps a snapshot if
  /// `length` is a multiple of the interval of keep_snapshots().
  void advance(std::int64_t before, std::int64_t length);
  /// Shares the current block and the snapshots of another cache.
  void copy_from(const StateCache& other);
  /// Begins with the states of another sequence, after `length` tokens.
  void begin(std::int64_t length, StateBlock states);

  /// `interval`: in tokens, at least 1; `most`: at least 2.
  void keep_snapshots(std::int64_t interval, std::size_t most = kMaxSnapshots) {
    interval_ = interval;
    max_snapshots_ = most;
  }
  bool keeps_snapshots() const { return interval_ > 0 && !empty(); }
  /// Keeps the states after `length` tokens, which are the current ones; only once, also if the snapshot was dropped,
  /// and not those that the cache began with: their other owner keeps them.
  void snapshot(std::int64_t length);
  std::span<const StateSnapshot> snapshots() const { return snapshots_; }  ///< In ascending length.
  /// Forgets the snapshots of at most `length` tokens.
  void drop_snapshots(std::int64_t length);
  /// Forgets the first snapshot. Returns false if there is none.
  bool drop_first_snapshot();
  /// Returns to the snapshot of `length` tokens, or, if `length` is 0, to the beginning.
  void return_to(std::int64_t length);

  void keep_last_pass(bool keeps);
  bool keeps_last_pass() const { return keeps_last_pass_ && !empty(); }
  /// How to compute a state within the pass that advance() ends next. It keeps what it needs.
  void set_replay(int layer, int number, ReplayState replay);
  /// Whether replay() can return to `length` tokens.
  bool can_replay(std::int64_t length) const;
  /// Whether it can return to any token of the last pass.
  bool can_replay_last_pass() const { return pass_begin_ && can_replay(*pass_begin_ + 1); }
  /// Returns to `length` tokens, within the last pass or before it. Returns false if there is no memory.
  bool replay(std::int64_t length, KvMemory& memory);

 private:
  struct Place {
    std::int64_t offset = 0;  // in bytes
    std::size_t count = 0;
    StateType type = StateType::f32;
  };

  void forget_last_pass();
  const Place& place_of(int layer, int number, StateType type) const;
  template <class T>
  std::span<T> elements(const StateBlock& block, int layer, int number) const {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, std::int32_t>);
    const Place& place = place_of(layer, number, std::is_same_v<T, float> ? StateType::f32 : StateType::i32);
    return {reinterpret_cast<T*>(block.get() + place.offset), place.count};
  }

  std::vector<std::vector<Place>> layers_;
  std::int64_t n_elements_ = 0;
  std::int64_t block_bytes_ = 0;
  StateBlock current_, next_;  // no other owner has the next one
  std::int64_t interval_ = 0;  // of snapshots; 0: none are kept
  std::size_t max_snapshots_ = kMaxSnapshots;
  std::vector<StateSnapshot> snapshots_;
  std::int64_t last_snapshot_ = 0;  // the length of the last one, also if it was dropped
  bool keeps_last_pass_ = false;
  std::optional<std::int64_t> pass_begin_{};                      // of the last pass, if it is kept
  StateBlock before_;                                             // the states there; null at the beginning of the text
  std::vector<std::vector<ReplayState>> replays_, next_replays_;  // of the last pass, and of the one that runs
};

}  // namespace vitrine
