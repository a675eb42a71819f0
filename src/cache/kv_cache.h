// The cache of a sequence: what the layers keep of its earlier tokens. Attention keeps keys and values, a recurrent
// layer its state, a model of the last few tokens their ids.
//
//   positions        0      1024   2048   3072   4096
//   full layers      [ 0    ][ 1    ][ 2    ][ 3 ..  ]     blocks of keys and values of all these layers
//   window layers      -       -     [ 2    ][ 3 ..  ]     the blocks that lie before the window are freed
//
// Blocks are taken when tokens arrive, and are reference-counted: caches of sequences that begin with the same tokens
// share them. A cache copies a block that others share before it writes to it.
//
// Attention reads the keys and values of earlier tokens from the cache and those of the pass directly; the latter are
// appended afterwards. So prefill, chunks and decode read the same numbers, and a pass that fails changes no token of
// the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "cache/kv_memory.h"
#include "cache/kv_spans.h"

namespace vitrine {

struct KvLayerConfig {
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::optional<std::int64_t> window;       ///< In tokens, including the query's own; absent: no limit.
  std::optional<std::int64_t> value_dim{};  ///< Elements of a value, if not head_dim.
};

/// A recurrent layer keeps the state after the last token, in float32.
struct CellLayerConfig {
  std::int64_t d_hidden = 0;
  bool has_c = false;  ///< The state is h and c (an LSTM), else h.
};

/// The first layer of a model of the last tokens keeps the ids of `n` of them.
struct IdsLayerConfig {
  std::int64_t n = 0;
};

using CacheLayerConfig = std::variant<KvLayerConfig, CellLayerConfig, IdsLayerConfig>;

/// The layers that have the same window, or none. Their keys and values are in the same blocks.
struct KvGroup {
  std::optional<std::int64_t> window;
  std::int64_t block_bytes = 0;
  std::vector<KvBlock> blocks{};  ///< Block i holds positions from i · block_length on; null: freed.

  /// The first position that is kept of `length`.
  std::int64_t first_kept(std::int64_t length) const { return window && length > *window ? length - *window : 0; }
};

/// Keys and values of a layer: `[n_kv_heads, block_length, width]` in each block of its group.
struct KvLayer {
  std::size_t group = 0;
  std::int64_t n_kv_heads = 0;
  KvPlace keys, values;  ///< Of the first head.
};

/// The state of a recurrent layer, and that after the tokens of the pass: `[2, width]`.
struct CellMemory {
  std::int64_t width = 0;
  std::shared_ptr<std::byte> rows;
  int current = 0;

  float* row(int i) const { return reinterpret_cast<float*>(rows.get()) + i * width; }
};

/// The last ids, oldest first, and those after the tokens of the pass.
struct RecentIds {
  std::size_t n = 0;
  std::vector<std::int32_t> ids{}, next{};
};

/// The state of a layer between passes.
using LayerState = std::variant<KvLayer, CellMemory, RecentIds>;

/// One sequence's cache: a state for each layer, and, in a model with an encoder, the cache of its source, whose layers
/// hold the keys and values of cross-attention. Dense layers have no state.
class KvCache {
 public:
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
  /// Of the states of a full cache, without those of the source and without the parts of blocks that no token uses.
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
  /// The state of a recurrent layer after length() tokens, h and then c, and memory for that after the tokens of this
  /// pass, which advance() makes the current one.
  const float* cell(int layer) const;
  float* next_cell(int layer);
  /// The last ids before length(), oldest first, at most as many as the first layer keeps.
  std::span<const std::int32_t> recent_ids() const;
  /// Keeps the ids of this pass. They are recent_ids() after advance().
  void append_ids(std::span<const std::int32_t> ids);
  void advance(std::int64_t count);
  /// Whether every layer keeps all positions, so that truncate() can return to any length.
  bool holds_all() const;
  /// Forgets the tokens from `length` on, at most length(). Returns false, and changes nothing, if a layer no longer
  /// has the state after `length` tokens: a recurrent layer, or a window layer whose blocks have been freed.
  bool truncate(std::int64_t length);
  /// Takes over the tokens of another cache of the same layers, capacity and type, and shares its blocks and source.
  void copy_from(const KvCache& other);
  /// Whether all that the cache keeps of its tokens is in blocks: no layer is recurrent or keeps ids.
  bool is_in_blocks() const;
  std::span<const KvGroup> groups() const { return groups_; }
  /// Replaces the tokens by `length` others. `blocks`: those of each group, from position 0 on, of a cache with the
  /// same layers, type and block length; null before the positions that the group keeps.
  void share(std::int64_t length, std::vector<std::vector<KvBlock>> blocks);

 private:
  void add(const KvLayerConfig& config);
  void add(const CellLayerConfig& config);
  void add(const IdsLayerConfig& config);
  KvPlace add_place(KvGroup& group, std::int64_t n_kv_heads, std::int64_t width, KvType type) const;
  std::shared_ptr<std::byte> take(std::optional<std::int64_t> bytes) const;
  KvPlace place_of(const KvPlace& place, std::int64_t kv_head) const;
  void put(std::byte* block, const KvPlace& place, std::int64_t slot, const KvBatch& batch, std::int64_t n_heads,
           std::int64_t token) const;
  void copy_slots(const KvBlock& from, const KvBlock& to, std::size_t group, std::int64_t count) const;
  void reserve(std::size_t group, std::int64_t end);
  void drop_reserved();
  bool holds(const KvGroup& group, std::int64_t length) const;
  std::size_t n_blocks(std::int64_t length) const;

  std::vector<LayerState> layers_;
  std::vector<KvGroup> groups_;
  std::int64_t capacity_;
  std::int64_t block_length_;
  std::int64_t length_ = 0;
  KvTypes types_;
  KvMemory* memory_;
  std::shared_ptr<KvCache> source_;
};

}  // namespace vitrine
