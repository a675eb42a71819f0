// Merges adjacent symbols, always the leftmost pair with the lowest rank, until no pair has a merge.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "tokenizer/algorithms/piece_table.h"

namespace vitrine {

/// The result of a merge, and its priority.
struct BpeMerge {
  std::uint32_t rank = 0xFFFFFFFF;
  std::int32_t merged = kNoId;
};

/// A rank for merging by score: the higher the score, the lower the rank.
inline std::uint32_t rank_of_score(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score == 0 ? 0.0F : score);  // -0 is 0
  return (bits >> 31) != 0 ? bits : 0x7FFFFFFFU - bits;
}

/// Memory that merge_by_heap reuses between calls.
struct MergeScratch {
  struct Symbol {
    std::int32_t id;
    std::int32_t previous;  // kNoId: none
    std::int32_t next;
    BpeMerge merge;  // of the pair that begins here
  };
  std::vector<Symbol> symbols;      // a doubly linked list by index, so that removal takes O(1)
  std::vector<std::uint64_t> heap;  // rank and index of each pair that was found
};

/// Merges `ids` in place, in O(n log n). `find(left, right)` returns the merge of two adjacent symbols; its `merged` is
/// kNoId if there is none. `on_merge(left, right)` is called before `left.merge` is applied. The indices in symbols are
/// those of the original ids: `right.previous` is the index of `left`, `left.next` that of `right`. `scratch.symbols`
/// contains the result as a list that begins at 0.
template <class Find, class Listener>
void merge_by_heap(Find&& find, MergeScratch& scratch, std::vector<std::int32_t>& ids, Listener&& on_merge) {
  using Symbol = MergeScratch::Symbol;
  const auto n = static_cast<std::int32_t>(ids.size());
  std::vector<std::uint64_t>& heap = scratch.heap;
  const auto at = [&](std::int32_t i) -> Symbol& { return scratch.symbols[static_cast<std::size_t>(i)]; };
  const auto find_pair = [&](std::int32_t i) {
    Symbol& left = at(i);
    left.merge = left.next == kNoId ? BpeMerge{} : find(left, at(left.next));
    if (left.merge.merged == kNoId) return false;
    heap.push_back((std::uint64_t{left.merge.rank} << 32) | static_cast<std::uint32_t>(i));
    return true;
  };

  scratch.symbols.resize(ids.size());
  heap.clear();
  for (std::int32_t i = 0; i < n; ++i) at(i) = {ids[static_cast<std::size_t>(i)], i - 1, i + 1 < n ? i + 1 : kNoId, {}};
  for (std::int32_t i = 0; i < n; ++i) find_pair(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    const std::uint64_t entry = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto place = static_cast<std::int32_t>(entry & 0xFFFFFFFF);
    Symbol& left = at(place);
    if (left.merge.merged == kNoId || left.merge.rank != entry >> 32) continue;  // the pair has changed since
    Symbol& right = at(left.next);
    on_merge(left, right);
    left.id = left.merge.merged;
    left.next = right.next;
    right.merge = {};
    if (left.next != kNoId) at(left.next).previous = place;
    for (const std::int32_t changed : {left.previous, place}) {
      if (changed != kNoId && find_pair(changed)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }

  ids.clear();
  for (std::int32_t i = n > 0 ? 0 : kNoId; i != kNoId; i = at(i).next) ids.push_back(at(i).id);
}

}  // namespace vitrine
