// The cache of a sequence: what the layers keep of its earlier tokens. Attention keeps keys and values, other layers a
// state (state_cache.h); a stack may have layers of both kinds.
//
//   positions        0      1024   2048   3072   4096
//   full layers      [ 0    ][ 1    ][ 2    ][ 3 ..  ]     blocks of keys and values of all these layers
//   window layers      -       -     [ 2    ][ 3 ..  ]     the blocks before the window are freed
//   states                      s       s        s [ ]     those after the last token, and snapshots of earlier ones
//
// Blocks are taken when tokens arrive, and are reference-counted: caches of sequences that begin with the same tokens
// share them. A cache copies a block that others share before it writes to it. This is a paged KV cache
// (PagedAttention) with copy-on-write; the list of a group's blocks is the block table.
//
// Attention reads the keys and values of earlier tokens from the cache and those of the pass directly; the latter are
// appended afterwards. So prefill, chunks and decode read the same numbers, and a pass that fails changes no token of
// the cache.
//
// Keys and values can be shared and truncated to any token. States are those after one token, so a cache with states
// returns to any token of its last pass, if it keeps what repeats the scans of that pass, and else to snapshots, after
// which it reads the tokens again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cache/kv_memory.h"
#include "cache/kv_spans.h"
#include "cache/state_cache.h"

namespace vitrine {

struct KvLayerConfig {
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::optional<std::int64_t> window{};     ///< In tokens, including the query's own; absent: no limit.
  std::optional<std::int64_t> value_dim{};  ///< Elements of a value, if not head_dim.
  bool chunked = false;                     ///< The window is a chunk, which begins at a multiple of its size.
  bool one_row = false;                     ///< A value is the first value_dim elements of its key, in its type.

  /// The bytes of a token.
  std::int64_t token_bytes(KvTypes types) const {
    const std::int64_t value = one_row ? 0 : kv_row_bytes(types.values, value_dim.value_or(head_dim));
    return n_kv_heads * (kv_row_bytes(types.keys, head_dim) + value);
  }
};

/// What a layer keeps: keys and values, states, both or neither.
struct CacheLayerConfig {
  CacheLayerConfig() = default;
  CacheLayerConfig(const KvLayerConfig& layer) : kv(layer) {}
  CacheLayerConfig(std::vector<StateConfig> layer) : states(std::move(layer)) {}

  std::optional<KvLayerConfig> kv;
  std::vector<StateConfig> states;
};

/// The layers that have the same window or chunk, or none. Their keys and values are in the same blocks.
struct KvGroup {
  std::optional<std::int64_t> window;
  bool chunked = false;
  std::int64_t block_bytes = 0;
  std::vector<KvBlock> blocks{};  ///< Block i holds positions from i · block_length on; null: freed.

  /// The first position that is kept of `length`; `length` if there is none.
  std::int64_t first_kept(std::int64_t length) const {
    if (window && chunked) return length / *window * *window;
    return window && length > *window ? length - *window : 0;
  }
};

/// Keys and values of a layer: `[n_kv_heads, block_length, width]` in each block of its group.
struct KvLayer {
  std::size_t group = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t token_bytes = 0;
  bool one_row = false;      ///< Values are the beginnings of keys (KvLayerConfig).
  KvPlace keys{}, values{};  ///< Of the first head.
};

/// One sequence's cache, and, in a model with an encoder, the cache of its source, whose layers hold the keys and
/// values of cross-attention.
class KvCache {
 public:
  /// A cache that keeps snapshots has one at each multiple of this length at which a pass ends, unless it is told
  /// another.
  static constexpr std::int64_t kSnapshotInterval = 256;

  /// `capacity`: the maximum length of the sequence. `block_length`: the number of positions in a block. Throws
  /// OutOfCapacity if the bytes of a full cache do not fit in 63 bits.
  KvCache(const std::vector<CacheLayerConfig>& layers, std::int64_t capacity, KvTypes types, KvMemory& memory,
          std::int64_t block_length);
  KvCache(const std::vector<CacheLayerConfig>& layers, std::int64_t capacity, KvTypes types,
          KvMemory& memory = system_kv_memory())
      : KvCache(layers, capacity, types, memory, memory.block_length()) {}

  std::int64_t length() const { return length_; }  ///< In tokens.
  std::int64_t capacity() const { return capacity_; }
  std::int64_t block_length() const { return block_length_; }
  KvTypes types() const { return types_; }
  /// Of a full cache, without its source, snapshots, and the parts of blocks that no token uses.
  std::int64_t bytes() const;
  /// The cache of the source; null without one. Sequences may share it. It is complete after the pass that reads the
  /// source, and does not change after that.
  KvCache* source() const { return source_.get(); }
  void set_source(std::shared_ptr<KvCache> source) { source_ = std::move(source); }

  /// The positions before length() that layer `layer` keeps, for one K/V head.
  KvSpans past(int layer, std::int64_t kv_head) const;
  /// Takes memory for `count` tokens from position length() on. append() does so, too; a caller that does it before
  /// the pass learns of missing memory before anything is computed. Throws OutOfCapacity, and takes nothing, if the
  /// memory or capacity() does not suffice.
  void reserve(std::int64_t count);
  /// The bytes that reserve(count) takes at most.
  std::int64_t missing_bytes(std::int64_t count) const;
  /// The bytes that suffice for a sequence of capacity() tokens that takes at most `chunk` at a time.
  std::int64_t full_bytes(std::int64_t chunk) const;
  /// The bytes of the blocks that no other owner shares.
  std::int64_t own_bytes() const;
  /// Stores the keys and values, of types(), of `count` tokens from position length() on. Does not change
  /// length(): call advance() after appending to all layers. Throws as reserve() does.
  void append(int layer, const KvBatch& keys, const KvBatch& values, std::int64_t count);
  /// Begins an empty cache after `length` tokens that it has not seen. The caller then sets what the layers keep of
  /// them, with set_past_keys(), set_past_values() and next_state(), and calls advance(0). Throws as reserve() does.
  void begin(std::int64_t length);
  /// Stores the keys or values, of types(), of all positions that past() has.
  void set_past_keys(int layer, const KvBatch& keys);
  void set_past_values(int layer, const KvBatch& values);
  /// The keys and values of a position in all layers: those of layer 0 for all heads, its values, then layer 1. The
  /// form in which blocks are stored outside of caches; it does not depend on block_length().
  std::int64_t row_bytes() const;
  /// Copies the rows of `count` positions before length(). Returns false if some of them have been freed.
  bool get_rows(std::int64_t first, std::int64_t count, std::span<std::byte> to) const;
  /// Sets the rows of `count` positions at or after length(), for which reserve() has taken memory.
  void put_rows(std::int64_t first, std::int64_t count, std::span<const std::byte> from);
  /// State `number` of a layer after length() tokens, and memory for that after the tokens of this pass, which
  /// advance() makes the current one. T is float or std::int32_t. A state before the first token is undefined.
  template <class T>
  std::span<const T> state(int layer, int number) const {
    return states_.current<T>(layer, number);
  }
  template <class T>
  std::span<T> next_state(int layer, int number) {
    reserve_states();
    return states_.next<T>(layer, number);
  }
  /// The states of all layers after length() tokens, one after another.
  std::int64_t packed_state_bytes() const { return states_.packed_bytes(); }
  void get_states(std::span<std::byte> to) const { states_.get_current(to); }
  /// Sets those after the tokens of this pass.
  void put_states(std::span<const std::byte> from) {
    reserve_states();
    states_.put_next(from);
  }
  /// Whether a layer has a state.
  bool has_states() const { return !states_.empty(); }
  void advance(std::int64_t count);
  /// Whether truncate() can return to any length.
  bool holds_all() const;
  /// Forgets the tokens from `length` on, at most length(). If the cache no longer has what its layers kept of the
  /// first `length` tokens, it returns to the nearest length below that it has: that of a snapshot, or 0 (as after
  /// blocks of a window have been freed). Returns the length; the caller feeds the tokens from there on again.
  std::int64_t truncate(std::int64_t length);
  /// From now on truncate() returns to any token of the last pass, without a product: the cache keeps the states before
  /// the pass, and the layers copy the operands of their scans, which are not counted as memory of the cache. Layers
  /// that do not (recurrent ones) return to snapshots. `keeps` false ends that, and frees what is kept.
  void keep_last_pass(bool keeps = true) { states_.keep_last_pass(keeps); }
  bool keeps_last_pass() const { return states_.keeps_last_pass(); }
  /// Whether truncate() returns to any token of the last pass: not with states that no layer has copied operands for.
  bool returns_into_last_pass() const { return !has_states() || states_.can_replay_last_pass(); }
  /// How truncate() computes state `number` of a layer within this pass. Layers call it if keeps_last_pass().
  void set_replay(int layer, int number, ReplayState replay) { states_.set_replay(layer, number, std::move(replay)); }
  /// From now on keeps snapshots of the states: those of snapshot(), and one every `interval` tokens, at most `most`
  /// of them. They are dropped when memory is short.
  void keep_snapshots(std::int64_t interval = kSnapshotInterval, std::size_t most = StateCache::kMaxSnapshots) {
    states_.keep_snapshots(interval, most);
  }
  bool keeps_snapshots() const { return states_.keeps_snapshots(); }
  /// Keeps the states after length() tokens, if the cache keeps snapshots.
  void snapshot() { states_.snapshot(length_); }
  std::span<const StateSnapshot> snapshots() const { return states_.snapshots(); }
  /// Forgets the snapshots of at most `length` tokens.
  void drop_snapshots(std::int64_t length) { states_.drop_snapshots(length); }
  std::int64_t snapshot_bytes() const { return states_.block_bytes(); }  ///< 0 without states.
  /// Takes over the tokens of another cache of the same layers, capacity and type, and shares its memory and source.
  void copy_from(const KvCache& other);
  std::span<const KvGroup> groups() const { return groups_; }
  /// Replaces the tokens by `length` others. `blocks`: those of each group, from position 0 on, of a cache with the
  /// same layers, type and block length; null before the positions that the group keeps. `states`: those after `length`
  /// tokens; null without states.
  void share(std::int64_t length, std::vector<std::vector<KvBlock>> blocks, StateBlock states = nullptr);

 private:
  KvLayer make_layer(const KvLayerConfig& config);
  KvPlace add_place(KvGroup& group, std::int64_t n_kv_heads, std::int64_t width, KvType type) const;
  const KvLayer& kv_layer(int layer) const;
  KvBlock take(std::int64_t bytes);
  void reserve_states();
  KvPlace place_of(const KvPlace& place, std::int64_t kv_head) const;
  void store(const KvLayer& layer, const KvPlace& place, std::int64_t first, const KvBatch& batch, std::int64_t count);
  template <class Copy>
  void for_each_row(std::int64_t first, std::int64_t count, Copy copy) const;
  void put(std::byte* block, const KvPlace& place, std::int64_t slot, const KvBatch& batch, std::int64_t n_heads,
           std::int64_t token) const;
  void copy_slots(const KvBlock& from, const KvBlock& to, std::size_t group, std::int64_t count) const;
  void reserve(std::size_t group, std::int64_t end);
  void drop_reserved();
  bool holds_blocks(std::int64_t length) const;
  std::int64_t nearest(std::int64_t length) const;
  std::size_t n_blocks(std::int64_t length) const;

  std::vector<std::optional<KvLayer>> layers_;  // none: without keys and values
  std::vector<KvGroup> groups_;
  StateCache states_;
  std::int64_t capacity_;
  std::int64_t block_length_;
  std::int64_t length_ = 0;
  KvTypes types_;
  KvMemory* memory_;
  std::shared_ptr<KvCache> source_;
};

}  // namespace vitrine
