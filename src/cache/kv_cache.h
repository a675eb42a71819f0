// The cache of a sequence: what the layers keep of its earlier tokens. Attention keeps keys and values, a recurrent
// layer its state, a model of the last few tokens their ids.
//
//   full layer   slot = position                     all positions
//   ring layer   slot = position mod slots           the last `window` positions; older ones are overwritten
//
// Attention reads the keys and values of earlier tokens from the cache and those of the pass directly; the latter are
// appended afterwards. A chunk may therefore be longer than a ring buffer, and prefill, chunks and decode read the same
// numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "cache/kv_memory.h"
#include "tensor/matrix_view.h"

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

/// Rows of keys or of values of one K/V head, `[rows, head_dim]`. The values of an i8 row r are its integers times
/// scales[r · scale_stride]. Other types have no scales.
struct KvRows {
  MatrixView view;
  const float* scales = nullptr;
  std::int64_t scale_stride = 1;

  KvRows range(std::int64_t first, std::int64_t count) const {
    return {view.row_range(first, count), scales != nullptr ? scales + first * scale_stride : nullptr, scale_stride};
  }
};

/// Keys and values of consecutive positions for one K/V head.
struct KvSpan {
  std::int64_t first_position = 0;
  KvRows keys;
  KvRows values;

  std::int64_t end_position() const { return first_position + keys.view.rows; }
};

/// The rows of all K/V heads of a pass: `[T, n_kv_heads, head_dim]`, with a scale per row and head if i8.
struct KvBatch {
  const std::byte* rows = nullptr;
  const float* scales = nullptr;  ///< `[T, n_kv_heads]`, for i8
  std::int64_t n_heads = 0;
  std::int64_t width = 0;  ///< head_dim, or that of values.
};

/// At most three spans, in ascending order of positions: two of a ring buffer that wraps around, and one of the pass.
class KvSpans {
 public:
  void push(const KvSpan& span) {
    if (span.keys.view.rows > 0) spans_[static_cast<std::size_t>(size_++)] = span;
  }
  const KvSpan* begin() const { return spans_.data(); }
  const KvSpan* end() const { return spans_.data() + size_; }
  /// The lowest position. There must be a span.
  std::int64_t first_position() const { return spans_[0].first_position; }

 private:
  std::array<KvSpan, 3> spans_;
  int size_ = 0;
};

/// Keys or values of one layer: `[n_kv_heads, slots, width]`, and for i8 scales `[n_kv_heads, slots]`.
struct KvStore {
  std::int64_t width = 0;
  std::shared_ptr<std::byte> rows, scales;
};

/// The members that all kinds of K/V layers have.
struct KvLayer {
  KvLayerConfig config;
  std::int64_t slots = 0;
  KvStore keys, values;
};

/// Holds all positions.
struct FullKv : KvLayer {
  std::int64_t slot(std::int64_t position) const { return position; }
};

/// Holds the last `slots` positions.
struct RingKv : KvLayer {
  std::int64_t slot(std::int64_t position) const { return position % slots; }
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
using LayerState = std::variant<FullKv, RingKv, CellMemory, RecentIds>;

/// One sequence's cache: a state for each layer, and, in a model with an encoder, the cache of its source, whose layers
/// hold the keys and values of cross-attention. Dense layers have no state.
class KvCache {
 public:
  /// `capacity`: the maximum length of the sequence. Memory is allocated at once, but the system commits it only when
  /// tokens are written. Throws OutOfCapacity if the allocation fails.
  KvCache(const std::vector<CacheLayerConfig>& layers, std::int64_t capacity, DType dtype,
          KvMemory& memory = system_kv_memory());

  std::int64_t length() const { return length_; }  ///< In tokens.
  std::int64_t capacity() const { return capacity_; }
  DType dtype() const { return dtype_; }
  std::int64_t bytes() const;  ///< Of all states, whether written or not, without those of the source.
  /// The cache of the source; null without one. Sequences may share it. It is complete after the pass that reads the
  /// source, and does not change after that.
  KvCache* source() const { return source_.get(); }
  void set_source(std::shared_ptr<KvCache> source) { source_ = std::move(source); }

  /// The positions before length() that layer `layer` still holds, for one K/V head.
  KvSpans past(int layer, std::int64_t kv_head) const;
  /// Stores the keys and values, of type dtype(), of `count` tokens from position length() on. Does not change
  /// length(): call advance() after appending to all layers.
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
  /// Whether every layer holds all positions, so that truncate() can return to any length, also after a pass that
  /// failed. Other layers overwrite old tokens while a pass runs.
  bool holds_all() const;
  /// Forgets the tokens from `length` on, at most length(). Returns false, and changes nothing, if a layer no longer
  /// has the state after `length` tokens: a recurrent layer, or a ring buffer that has wrapped around.
  bool truncate(std::int64_t length);
  /// Takes over the tokens of another cache of the same layers, capacity and type, and shares its source.
  void copy_from(const KvCache& other);

 private:
  KvStore make_store(const KvLayer& layer, std::int64_t width, KvMemory& memory) const;
  void add(const KvLayerConfig& config, KvMemory& memory);
  void add(const CellLayerConfig& config, KvMemory& memory);
  void add(const IdsLayerConfig& config, KvMemory& memory);
  std::shared_ptr<std::byte> take(std::span<const std::int64_t> sizes, KvMemory& memory) const;
  void copy(const KvLayer& from, const KvLayer& to, std::int64_t length) const;
  void copy_rows(const KvLayer& layer, const KvStore& from, const KvStore& to, std::int64_t count) const;
  KvRows slot_range(const KvLayer& layer, const KvStore& store, std::int64_t kv_head, std::int64_t first,
                    std::int64_t count) const;
  void put(const KvLayer& layer, const KvStore& store, const KvBatch& batch, std::int64_t token,
           std::int64_t slot) const;

  std::vector<LayerState> layers_;
  std::int64_t capacity_;
  std::int64_t length_ = 0;
  DType dtype_;
  std::shared_ptr<KvCache> source_;
};

}  // namespace vitrine
