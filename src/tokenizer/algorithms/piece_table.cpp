#include "tokenizer/algorithms/piece_table.h"

#include <utility>

#include "tokenizer/hash.h"

namespace vitrine {
namespace {

std::uint32_t hash_of(std::string_view piece) { return static_cast<std::uint32_t>(hash_bytes(piece)); }

}  // namespace

/// The slot of the piece, or the free slot where it belongs.
std::size_t PieceTable::slot(std::string_view piece, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto is_it = [&](const Slot& s) {
    return s.hash == hash && view(entries_[static_cast<std::size_t>(s.id)]) == piece;
  };
  std::size_t i = hash & mask;
  while (slots_[i].id != kNoId && !is_it(slots_[i])) i = (i + 1) & mask;
  return i;
}

std::int32_t PieceTable::find(std::string_view piece) const {
  return slots_.empty() ? kNoId : slots_[slot(piece, hash_of(piece))].id;
}

void PieceTable::grow() {
  std::vector<Slot> larger(slots_.empty() ? 1024 : slots_.size() * 2);
  const std::size_t mask = larger.size() - 1;
  for (const Slot& s : slots_) {
    if (s.id == kNoId) continue;
    std::size_t i = s.hash & mask;
    while (larger[i].id != kNoId) i = (i + 1) & mask;
    larger[i] = s;
  }
  slots_ = std::move(larger);
}

bool PieceTable::add(std::string_view piece, std::int32_t id, bool may_repeat) {
  if (contains(id)) return false;
  if (static_cast<std::size_t>(n_pieces_) * 2 >= slots_.size()) grow();
  const std::uint32_t hash = hash_of(piece);
  Slot& place = slots_[slot(piece, hash)];
  if (place.id != kNoId && !may_repeat) return false;
  if (id >= size()) entries_.resize(static_cast<std::size_t>(id) + 1);
  entries_[static_cast<std::size_t>(id)] = {static_cast<std::uint32_t>(bytes_.size()),
                                            static_cast<std::uint32_t>(piece.size())};
  bytes_.append(piece);
  place = {id, hash};
  ++n_pieces_;
  return true;
}

}  // namespace vitrine
