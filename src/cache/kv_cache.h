// The KV cache: keys and values of the earlier tokens of a sequence.
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
#include <utility>
#include <variant>
#include <vector>

#include "cache/kv_memory.h"
#include "tensor/matrix_view.h"

namespace vitrine {

struct KvLayerConfig {
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::optional<std::int64_t> window;  ///< In tokens, including the query's own; absent: no limit.
};

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

/// Keys or values of one layer: `[n_kv_heads, slots, head_dim]`, and for i8 scales `[n_kv_heads, slots]`.
struct KvStore {
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

/// The state of a layer between passes.
using LayerState = std::variant<FullKv, RingKv>;

/// One sequence's cache: a state for each layer, and, in a model with an encoder, the cache of its source, whose layers
/// hold the keys and values of cross-attention.
class KvCache {
 public:
  /// `capacity`: the maximum length of the sequence. Memory is allocated at once, but the system commits it only when
  /// tokens are written. Throws OutOfCapacity if the allocation fails.
  KvCache(const std::vector<KvLayerConfig>& layers, std::int64_t capacity, DType dtype,
          KvMemory& memory = system_kv_memory());

  std::int64_t length() const { return length_; }  ///< In tokens.
  std::int64_t capacity() const { return capacity_; }
  DType dtype() const { return dtype_; }
  std::int64_t bytes() const;  ///< Of all keys and values, whether written or not, without those of the source.
  /// The cache of the source; null without one. Sequences may share it. It is complete after the pass that reads the
  /// source, and does not change after that.
  KvCache* source() const { return source_.get(); }
  void set_source(std::shared_ptr<KvCache> source) { source_ = std::move(source); }

  /// The positions before length() that layer `layer` still holds, for one K/V head.
  KvSpans past(int layer, std::int64_t kv_head) const;
  /// Stores the keys and values, of type dtype(), of `count` tokens from position length() on. Does not change
  /// length(): call advance() after appending to all layers.
  void append(int layer, const KvBatch& keys, const KvBatch& values, std::int64_t count);
  void advance(std::int64_t count) { length_ += count; }
  /// Takes over the tokens of another cache of the same layers, capacity and type, and shares its source.
  void copy_from(const KvCache& other);

 private:
  KvStore make_store(const KvLayer& layer, KvMemory& memory) const;
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
