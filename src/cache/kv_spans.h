// Views of the pages of keys and values, as attention reads them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

#include "tensor/kv_rows.h"

namespace vitrine {

/// Keys and values of consecutive positions for one K/V head.
struct KvSpan {
  std::int64_t first_position = 0;
  KvRows keys;
  KvRows values;

  std::int64_t end_position() const { return first_position + keys.rows; }
};

/// The rows of all K/V heads of a pass: `[T, n_heads, width]`.
struct KvBatch {
  const std::byte* rows = nullptr;
  KvType type = KvType::f32;
  std::int64_t n_heads = 0;
  std::int64_t width = 0;                      ///< head_dim, or that of values.
  std::optional<std::int64_t> stored_width{};  ///< Elements from one row to the next, if not width.

  std::int64_t row_bytes() const { return kv_row_bytes(type, stored_width.value_or(width)); }
  /// The first `n` elements of each row. Those of integers have no place of their own: they are the whole rows.
  KvBatch beginnings(std::int64_t n) const { return {rows, type, n_heads, is_integer(type) ? width : n, width}; }
};

/// Memory of the keys and values of consecutive positions. Caches share blocks whose positions have the same tokens.
using KvBlock = std::shared_ptr<std::byte>;

/// Where the rows of one K/V head are in a block: `[block_length, width]`.
struct KvPlace {
  std::int64_t offset = 0;  ///< In bytes.
  std::int64_t width = 0;
  KvType type = KvType::f32;
  std::optional<std::int64_t> stored_width{};  ///< As in KvBatch.

  std::int64_t row_bytes() const { return kv_row_bytes(type, stored_width.value_or(width)); }
  KvPlace beginnings(std::int64_t n) const { return {offset, is_integer(type) ? width : n, type, width}; }
};

/// The blocks of a cache as one K/V head of a layer reads them. Block i holds positions from i · block_length on.
struct KvBlocks {
  const KvBlock* blocks = nullptr;
  std::int64_t block_length = 1;
  KvPlace keys, values;

  /// Rows from position `first` on, at most to the end of the block.
  KvRows rows(const KvPlace& place, std::int64_t first, std::int64_t count) const {
    const std::byte* const block = blocks[first / block_length].get();
    const std::int64_t bytes = place.row_bytes();
    return {block + place.offset + first % block_length * bytes, place.type, count, place.width, bytes};
  }
};

/// The keys and values of positions [first_position(), end_position()) for one K/V head, as spans in ascending order:
/// one for each block of a cache, then those of the pass. They are made one by one, so a view of a long sequence is
/// cheap.
class KvSpans {
 public:
  KvSpans() = default;
  KvSpans(const KvBlocks& blocks, std::int64_t first, std::int64_t end) : blocks_(blocks), first_(first), end_(end) {
    own_.first_position = end;
  }

  /// Appends the span of the pass, which begins at end_position().
  void append(const KvSpan& own) {
    own_ = own;
    end_ = own.end_position();
  }
  /// The same keys and values at the positions within [first, end) only.
  KvSpans within(std::int64_t first, std::int64_t end) const {
    KvSpans part = *this;
    part.first_ = std::max(first, first_);
    part.end_ = std::max(part.first_, std::min(end, end_));
    return part;
  }

  std::int64_t first_position() const { return first_; }
  std::int64_t end_position() const { return end_; }
  bool empty() const { return first_ == end_; }

  class Iterator {
   public:
    explicit Iterator(const KvSpans& all) : all_(&all) { move_to(all.first_); }
    const KvSpan& operator*() const { return span_; }
    const KvSpan* operator->() const { return &span_; }
    Iterator& operator++() {
      move_to(span_.end_position());
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return span_.first_position == all_->end_; }

   private:
    void move_to(std::int64_t position) {
      if (position < all_->end_) {
        span_ = all_->from(position);
      } else {
        span_.first_position = position;
      }
    }

    const KvSpans* all_;
    KvSpan span_;
  };
  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  /// The span that contains `position`, from there on.
  KvSpan from(std::int64_t position) const {
    if (position >= own_.first_position) {
      const std::int64_t first = position - own_.first_position, count = end_ - position;
      return {position, own_.keys.range(first, count), own_.values.range(first, count)};
    }
    const std::int64_t in_block = blocks_.block_length - position % blocks_.block_length;
    const std::int64_t count = std::min(in_block, std::min(end_, own_.first_position) - position);
    return {position, blocks_.rows(blocks_.keys, position, count), blocks_.rows(blocks_.values, position, count)};
  }

  KvBlocks blocks_;
  std::int64_t first_ = 0, end_ = 0;
  KvSpan own_;  // of the pass; without rows if there is none
};

}  // namespace vitrine
