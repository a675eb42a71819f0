#include "tokenizer/algorithms/piece_merge.h"

#include <algorithm>
#include <cstring>
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
  w.begins.clear();
  w.ids.clear();
  w.left_sizes.clear();
  for (std::size_t begin = 0; begin < segment.size();) {
    const std::size_t size = sentencepiece_character(segment.substr(begin));
    w.begins.push_back(static_cast<std::uint32_t>(begin));
    w.ids.push_back(pieces_.find(segment.substr(begin, size)));
    begin += size;
  }
  w.begins.push_back(static_cast<std::uint32_t>(segment.size()));
  merge(segment, w, ids);
  if (is_short) w.cache.keep(segment, std::span(ids).subspan(n_before));
}

/// Merges `w.ids`, the characters of the segment, and appends the resulting ids.
void PieceMerger::merge(std::string_view segment, Workspace& w, std::vector<std::int32_t>& ids) const {
  using Symbol = MergeScratch::Symbol;
  const auto begin = [&](std::int32_t i) {
    return i == kNoId ? w.begins.back() : w.begins[static_cast<std::size_t>(i)];
  };
  const auto text = [&](std::int32_t from, std::int32_t to) {  // of the characters [from, to), or all from `from` on
    return segment.substr(begin(from), begin(to) - begin(from));
  };
  if (w.recorder != nullptr) {
    w.recorder->rule(Explanation::Word::Rule::merges_by_score);
    w.recorder->begin_symbols();
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(w.ids.size()); ++i) w.recorder->symbol(text(i, i + 1));
  }
  const auto find = [&](const Symbol& left, const Symbol& right) -> BpeMerge {
    const std::string_view both = text(right.previous, right.next);
    const std::int32_t id = both.size() <= longest_ ? pieces_.find(both) : kNoId;
    if (id == kNoId) return {};
    if (is_unused(id)) w.left_sizes[id] = static_cast<std::uint32_t>(text(right.previous, left.next).size());
    return {rank_of_score(score(id)), id};
  };
  merge_by_heap(find, w.scratch, w.ids, [&](const Symbol& left, const Symbol& right) {
    if (w.recorder == nullptr) return;
    w.recorder->merge(static_cast<double>(score(left.merge.merged)), static_cast<std::size_t>(right.previous),
                      text(right.previous, left.next), text(left.next, right.next), pieces_.piece(left.merge.merged));
  });
  for (std::int32_t i = 0; i != kNoId;) {
    const Symbol& symbol = w.scratch.symbols[static_cast<std::size_t>(i)];
    append(text(i, symbol.next), symbol.id, w, ids);
    i = symbol.next;
  }
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

/// Splits an unused piece into the two that it was merged from, and recursively splits those that are unused, too.
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
