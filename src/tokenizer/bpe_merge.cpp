// The two ways to merge a word's symbols, lowest rank first and leftmost among equals: a scan and a heap.
#include <algorithm>
#include <functional>

#include "tokenizer/bpe.h"

namespace vitrine {
namespace {

constexpr std::uint32_t kNoRank = BpeMerge{}.rank;

/// Rank and place in one number, so that the heap is small and compares fast.
std::uint64_t heap_entry(std::uint32_t rank, std::int32_t place) {
  return (std::uint64_t{rank} << 32) | static_cast<std::uint32_t>(place);
}

}  // namespace

void merge_by_scan(const MergeTable& merges, Bpe::Workspace& workspace, std::vector<std::int32_t>& ids,
                   const MergeListener* listener) {
  if (ids.size() < 2) return;
  std::vector<BpeMerge>& pairs = workspace.merges;  // pairs[i]: of ids[i] and ids[i + 1]
  pairs.resize(ids.size() - 1);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) pairs[i] = merges.find(ids[i], ids[i + 1]);
  while (!pairs.empty()) {
    const auto best = std::min_element(pairs.begin(), pairs.end(),
                                       [](const BpeMerge& a, const BpeMerge& b) { return a.rank < b.rank; });
    if (best->merged == kNoId) return;
    const auto i = best - pairs.begin();
    const auto at = static_cast<std::size_t>(i);
    if (listener != nullptr) {
      const PieceTable& p = listener->pieces;
      listener->recorder.merge_now(best->rank, at, p.piece(ids[at]), p.piece(ids[at + 1]), p.piece(best->merged));
    }
    ids[at] = best->merged;
    ids.erase(ids.begin() + i + 1);
    pairs.erase(best);
    if (at + 1 < ids.size()) pairs[at] = merges.find(ids[at], ids[at + 1]);
    if (at > 0) pairs[at - 1] = merges.find(ids[at - 1], ids[at]);
  }
}

/// Symbols form a doubly linked list by place, so that one is removed in O(1). The heap holds the pairs as they were
/// when they were found; one is stale where the pair at its place has another rank by now.
void merge_by_heap(const MergeTable& merges, Bpe::Workspace& workspace, std::vector<std::int32_t>& ids,
                   const MergeListener* listener) {
  const auto n = static_cast<std::int32_t>(ids.size());
  std::vector<Bpe::Workspace::Symbol>& symbols = workspace.symbols;
  std::vector<std::uint64_t>& heap = workspace.heap;
  symbols.resize(ids.size());
  heap.clear();
  const auto at = [&](std::int32_t i) -> Bpe::Workspace::Symbol& { return symbols[static_cast<std::size_t>(i)]; };

  for (std::int32_t i = 0; i < n; ++i) at(i) = {ids[static_cast<std::size_t>(i)], i - 1, i + 1 < n ? i + 1 : kNoId, {}};
  for (std::int32_t i = 0; i + 1 < n; ++i) {
    at(i).merge = merges.find(at(i).id, at(i + 1).id);
    if (at(i).merge.merged != kNoId) heap.push_back(heap_entry(at(i).merge.rank, i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    const std::uint64_t entry = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto place = static_cast<std::int32_t>(entry & 0xFFFFFFFF);
    Bpe::Workspace::Symbol& left = at(place);
    if (left.merge.merged == kNoId || left.merge.rank != entry >> 32) continue;
    Bpe::Workspace::Symbol& right = at(left.next);
    if (listener != nullptr) {
      const PieceTable& p = listener->pieces;
      listener->recorder.merge(left.merge.rank, static_cast<std::size_t>(place), p.piece(left.id), p.piece(right.id),
                               p.piece(left.merge.merged));
    }
    left.id = left.merge.merged;
    left.next = right.next;
    right.id = kNoId;
    right.merge = {};
    if (left.next != kNoId) at(left.next).previous = place;
    for (std::int32_t changed : {left.previous, place}) {
      if (changed == kNoId) continue;
      Bpe::Workspace::Symbol& s = at(changed);
      s.merge = s.next == kNoId ? BpeMerge{kNoRank, kNoId} : merges.find(s.id, at(s.next).id);
      if (s.merge.merged == kNoId) continue;
      heap.push_back(heap_entry(s.merge.rank, changed));
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }

  ids.clear();
  for (std::int32_t i = n > 0 ? 0 : kNoId; i != kNoId; i = at(i).next) ids.push_back(at(i).id);
}

}  // namespace vitrine
