#include "tokenizer/piece_merge.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

namespace vitrine {
namespace {

/// A number that identifies a character of one to four bytes, valid or not.
std::uint32_t packed(std::string_view character) {
  std::uint32_t number = 0;
  std::memcpy(&number, character.data(), character.size());
  return number;
}

constexpr std::size_t kMaxSegmentBytes = std::size_t{1} << 30;  // indices of symbols are int32

}  // namespace

std::size_t sentencepiece_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(length, text.size());
}

bool PieceMerger::add(std::string_view text, std::int32_t id, float score, bool unused) {
  if (!pieces_.add(text, id)) return false;
  const auto index = static_cast<std::size_t>(id);
  if (index >= scores_.size()) {
    scores_.resize(index + 1);
    unused_.resize(index + 1);
  }
  scores_[index] = score;
  unused_[index] = unused;
  has_unused_ = has_unused_ || unused;
  longest_ = std::max(longest_, text.size());
  std::uint32_t last = 0;
  for (bool is_first = true; !text.empty(); is_first = false) {
    const std::size_t length = sentencepiece_character(text);
    const std::uint32_t character = packed(text.substr(0, length));
    if (!is_first) boundaries_.add(last, character);
    last = character;
    text.remove_prefix(length);
  }
  return true;
}

void PieceMerger::set_unknown(std::int32_t unk, std::vector<std::int32_t> byte_ids) {
  unk_ = unk;
  byte_ids_ = std::move(byte_ids);
}

std::int32_t PieceMerger::find(std::string_view text) const {
  const std::int32_t id = reserved_.find(text);
  return id != kNoId ? id : pieces_.find(text);
}

/// Cuts the text where no piece can extend across the cut, so that merges on both sides are independent. A vocabulary
/// with unused pieces allows no cuts, because an unused piece is split as it was last merged anywhere in the text.
void PieceMerger::encode(std::string_view text, Workspace& workspace, std::vector<std::int32_t>& ids) const {
  while (!text.empty()) {
    std::size_t end = sentencepiece_character(text);
    std::uint32_t last = packed(text.substr(0, end));
    while (end < text.size() && end < kMaxSegmentBytes) {
      const std::size_t length = sentencepiece_character(text.substr(end));
      const std::uint32_t character = packed(text.substr(end, length));
      if (!has_unused_ && !boundaries_.is_crossed(last, character)) break;
      last = character;
      end += length;
    }
    encode_segment(text.substr(0, end), workspace, ids);
    text.remove_prefix(end);
  }
}

void PieceMerger::encode_segment(std::string_view segment, Workspace& w, std::vector<std::int32_t>& ids) const {
  const bool is_short = segment.size() <= WordCache::kMaxWordBytes && !has_unused_ && w.recorder == nullptr;
  if (is_short && w.cache.find(segment, ids)) return;
  const std::size_t n_before = ids.size();

  split(segment, w.symbols);
  if (w.recorder != nullptr) {
    w.recorder->rule(Explanation::Word::Rule::merges_by_score);
    w.recorder->begin_symbols();
    for (const Workspace::Symbol& s : w.symbols) w.recorder->symbol(segment.substr(s.begin, s.size));
  }
  const auto at = [&](std::int32_t i) -> Workspace::Symbol& { return w.symbols[static_cast<std::size_t>(i)]; };
  w.heap.clear();
  w.left_sizes.clear();
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(w.symbols.size()); ++i) find_pair(segment, i, w);
  while (!w.heap.empty()) {
    const std::uint64_t best = w.heap.front();
    std::pop_heap(w.heap.begin(), w.heap.end(), std::greater<>());
    w.heap.pop_back();
    const auto left_index = static_cast<std::int32_t>(best & 0xFFFFFFFF);
    Workspace::Symbol& left = at(left_index);
    if (left.pair == kNoId || rank(left.pair) != best >> 32) continue;  // the pair has changed since
    Workspace::Symbol& right = at(left.next);
    if (w.recorder != nullptr) record(segment, w, left_index);
    left.size += right.size;
    left.id = left.pair;
    left.next = right.next;
    if (right.next >= 0) at(right.next).previous = left_index;
    right.size = 0;
    right.pair = kNoId;
    if (left.previous >= 0) find_pair(segment, left.previous, w);
    find_pair(segment, left_index, w);
  }
  for (std::int32_t i = 0; i >= 0; i = at(i).next) append(segment.substr(at(i).begin, at(i).size), at(i).id, w, ids);

  if (is_short) w.cache.keep(segment, std::span(ids).subspan(n_before));
}

/// Records the merge of the symbol `left` with the next one.
void PieceMerger::record(std::string_view segment, const Workspace& w, std::int32_t left) const {
  const Workspace::Symbol& l = w.symbols[static_cast<std::size_t>(left)];
  const Workspace::Symbol& r = w.symbols[static_cast<std::size_t>(l.next)];
  w.recorder->merge(static_cast<double>(scores_[static_cast<std::size_t>(l.pair)]), static_cast<std::size_t>(left),
                    segment.substr(l.begin, l.size), segment.substr(r.begin, r.size), pieces_.piece(l.pair));
}

void PieceMerger::split(std::string_view segment, std::vector<Workspace::Symbol>& symbols) const {
  symbols.clear();
  for (std::size_t begin = 0; begin < segment.size();) {
    const std::size_t size = sentencepiece_character(segment.substr(begin));
    const auto i = static_cast<std::int32_t>(symbols.size());
    const std::int32_t next = begin + size < segment.size() ? i + 1 : -1;
    symbols.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size), i - 1, next,
                       pieces_.find(segment.substr(begin, size)), kNoId});
    begin += size;
  }
}

/// Looks up the piece that the symbol `left` and the next one form.
void PieceMerger::find_pair(std::string_view segment, std::int32_t left, Workspace& w) const {
  Workspace::Symbol& symbol = w.symbols[static_cast<std::size_t>(left)];
  symbol.pair = kNoId;
  if (symbol.next < 0) return;
  const std::uint32_t size = symbol.size + w.symbols[static_cast<std::size_t>(symbol.next)].size;
  if (size > longest_) return;
  symbol.pair = pieces_.find(segment.substr(symbol.begin, size));
  if (symbol.pair == kNoId) return;
  w.heap.push_back(std::uint64_t{rank(symbol.pair)} << 32 | static_cast<std::uint32_t>(left));
  std::push_heap(w.heap.begin(), w.heap.end(), std::greater<>());
  if (is_unused(symbol.pair)) w.left_sizes[symbol.pair] = symbol.size;
}

void PieceMerger::append(std::string_view symbol, std::int32_t id, Workspace& workspace,
                         std::vector<std::int32_t>& ids) const {
  if (is_unused(id)) return append_unused(symbol, workspace, ids);
  if (reserved_.n_pieces() > 0) {
    const std::int32_t reserved = reserved_.find(symbol);
    if (reserved != kNoId) id = reserved;
  }
  if (id != kNoId) {
    ids.push_back(id);
  } else if (!byte_ids_.empty()) {
    for (const char byte : symbol) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  } else if (unk_ != kNoId) {
    ids.push_back(unk_);
  }
}

/// Splits an unused piece into the two it was merged from, and recursively those of them that are unused.
void PieceMerger::append_unused(std::string_view piece, Workspace& w, std::vector<std::int32_t>& ids) const {
  std::vector<std::string_view> pending = {piece};
  while (!pending.empty()) {
    const std::string_view symbol = pending.back();
    pending.pop_back();
    const std::int32_t id = pieces_.find(symbol);
    const auto left_size = is_unused(id) ? w.left_sizes.find(id) : w.left_sizes.end();
    if (reserved_.find(symbol) == kNoId && left_size != w.left_sizes.end()) {
      pending.push_back(symbol.substr(left_size->second));
      pending.push_back(symbol.substr(0, left_size->second));
    } else if (is_unused(id)) {
      ids.push_back(id);
    } else {
      append(symbol, id, w, ids);
    }
  }
}

}  // namespace vitrine
