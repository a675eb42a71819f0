// A vocabulary: pieces by id and ids by piece, in a few flat arrays whatever the number of pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

constexpr std::int32_t kNoId = -1;

/// Ids may be added in any order and may have gaps. A piece holds any bytes.
class PieceTable {
 public:
  static constexpr std::int32_t kMaxId = (1 << 22) - 1;           ///< Sixteen times the largest vocabulary known.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 30;  ///< Of all pieces together.

  /// Adds a piece. False, and nothing is changed, where the piece or the id stands already. The caller has checked
  /// that 0 <= id <= kMaxId and that the pieces stay within kMaxBytes.
  bool add(std::string_view piece, std::int32_t id);

  /// The same, but the piece may stand already under other ids: find gives the latest. False where the id stands
  /// already.
  bool add_again(std::string_view piece, std::int32_t id);

  /// kNoId where the piece is not in the vocabulary.
  std::int32_t find(std::string_view piece) const;

  /// "" for an id that no piece has.
  std::string_view piece(std::int32_t id) const {
    return contains(id) ? view(entries_[static_cast<std::size_t>(id)]) : std::string_view();
  }
  bool contains(std::int32_t id) const {
    return id >= 0 && id < size() && entries_[static_cast<std::size_t>(id)].offset != kAbsent;
  }

  std::int32_t size() const { return static_cast<std::int32_t>(entries_.size()); }  ///< The greatest id + 1.
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
    std::uint32_t hash = 0;  // so that another piece is told apart without a look at it, and growing needs none
  };
  std::size_t slot(std::string_view piece, std::uint32_t hash) const;
  void grow();
  bool add(std::string_view piece, std::int32_t id, bool may_repeat);

  std::string bytes_;
  std::vector<Entry> entries_;  // by id
  std::vector<Slot> slots_;     // a hash table with linear probing; a power of two, at most half full
  std::int32_t n_pieces_ = 0;
};

}  // namespace vitrine
