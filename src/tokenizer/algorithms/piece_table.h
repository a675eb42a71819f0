// A vocabulary: finds pieces by id and ids by piece, in a few flat arrays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

constexpr std::int32_t kNoId = -1;

/// Ids may be added in any order and may have gaps. Pieces may contain any bytes.
class PieceTable {
 public:
  static constexpr std::int32_t kMaxId = (1 << 22) - 1;           ///< Sixteen times the largest published vocabulary.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 30;  ///< Of all pieces together.

  /// Adds a piece. Returns false without a change if the id is in use, or if the piece exists and `may_repeat` is
  /// false; of repeated pieces, find() returns the last. The caller ensures that 0 <= id <= kMaxId and that the pieces
  /// do not exceed kMaxBytes.
  bool add(std::string_view piece, std::int32_t id, bool may_repeat = false);

  /// Returns kNoId if the piece is not in the vocabulary.
  std::int32_t find(std::string_view piece) const;

  /// Returns "" if no piece has the id.
  std::string_view piece(std::int32_t id) const {
    return contains(id) ? view(entries_[static_cast<std::size_t>(id)]) : std::string_view();
  }
  bool contains(std::int32_t id) const {
    return id >= 0 && id < size() && entries_[static_cast<std::size_t>(id)].offset != kAbsent;
  }

  std::int32_t size() const { return static_cast<std::int32_t>(entries_.size()); }  ///< The largest id + 1.
  std::int32_t n_pieces() const { return n_pieces_; }

 private:
  static constexpr std::uint32_t kAbsent = 0xFFFFFFFF;
  struct Entry {
    std::uint32_t offset = kAbsent;
    std::uint32_t length = 0;
  };
  std::string_view view(const Entry& e) const { return std::string_view(bytes_).substr(e.offset, e.length); }
  struct Slot {
    std::int32_t id = kNoId;
    std::uint32_t hash = 0;  // avoids most comparisons of pieces, and rehashing when the table grows
  };
  std::size_t slot(std::string_view piece, std::uint32_t hash) const;
  void grow();

  std::string bytes_;
  std::vector<Entry> entries_;  // by id
  std::vector<Slot> slots_;     // a hash table with linear probing; its size is a power of two; at most half full
  std::int32_t n_pieces_ = 0;
};

}  // namespace vitrine
