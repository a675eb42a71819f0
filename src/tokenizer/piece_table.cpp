#include "tokenizer/piece_table.h"

#include "tokenizer/hash.h"

namespace vitrine {

/// Where the piece stands, or the free place where it belongs.
std::size_t PieceTable::slot(std::string_view piece) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash_bytes(piece) & mask;
  while (slots_[i] != kNoId && view(entries_[static_cast<std::size_t>(slots_[i])]) != piece) i = (i + 1) & mask;
  return i;
}

std::int32_t PieceTable::find(std::string_view piece) const { return slots_.empty() ? kNoId : slots_[slot(piece)]; }

void PieceTable::grow() {
  slots_.assign(slots_.empty() ? 1024 : slots_.size() * 2, kNoId);
  for (std::int32_t id = 0; id < size(); ++id) {
    if (contains(id)) slots_[slot(piece(id))] = id;
  }
}

bool PieceTable::add(std::string_view piece, std::int32_t id) {
  if (contains(id)) return false;
  if (static_cast<std::size_t>(n_pieces_) * 2 >= slots_.size()) grow();
  const std::size_t place = slot(piece);
  if (slots_[place] != kNoId) return false;
  if (id >= size()) entries_.resize(static_cast<std::size_t>(id) + 1);
  entries_[static_cast<std::size_t>(id)] = {static_cast<std::uint32_t>(bytes_.size()),
                                            static_cast<std::uint32_t>(piece.size())};
  bytes_.append(piece);
  slots_[place] = id;
  ++n_pieces_;
  return true;
}

}  // namespace vitrine
