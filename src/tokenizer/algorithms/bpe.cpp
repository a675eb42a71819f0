#include "tokenizer/algorithms/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::size_t kShortWord = 40;        // symbols; up to this length, a scan for each merge is faster than a heap
constexpr std::size_t kKeptBytes = 1U << 20;  // of scratch, kept after a long text
constexpr std::uint64_t kMaxRankWork = 1ULL << 31;
constexpr std::uint32_t kSmallCharacters = 0x10000;

std::uint32_t last_of(std::string_view text, BpeOptions::Symbols symbols) {
  if (symbols == BpeOptions::Symbols::bytes) return static_cast<unsigned char>(text.back());
  const std::string_view character = text.substr(last_character(text));
  return is_valid_utf8(character) ? code_point(character) : 0;
}

std::uint32_t first_of(std::string_view text, BpeOptions::Symbols symbols) {
  if (symbols == BpeOptions::Symbols::bytes) return static_cast<unsigned char>(text[0]);
  const std::size_t length = std::min(length_by_lead(text[0]), text.size());
  return is_valid_utf8(text.substr(0, length)) ? code_point(text) : 0;
}

template <class T>
void release_if_large(std::vector<T>& scratch) {
  if (scratch.capacity() * sizeof(T) > kKeptBytes) scratch = std::vector<T>();
}

}  // namespace

MergeTable::MergeTable(std::size_t n_merges) {
  std::size_t size = 16;
  while (size < 2 * n_merges) size *= 2;
  slots_.resize(size);
  mask_ = size - 1;
}

void MergeTable::add(std::int32_t left, std::int32_t right, BpeMerge merge) {
  const std::uint64_t key = make_key(left, right);
  std::size_t i = hash_number(key) & mask_;
  while (slots_[i].key != key && slots_[i].key != kFree) i = (i + 1) & mask_;
  slots_[i] = {key, merge};
}

MergeBoundaries::MergeBoundaries() : bits_((kSmall * kSmall + kHashed) / 64) {}

void MergeBoundaries::add(std::uint32_t last, std::uint32_t first) {
  const std::size_t i = index(last, first);
  bits_[i / 64] |= std::uint64_t{1} << (i % 64);
}

void merge_by_scan(const MergeTable& merges, std::vector<BpeMerge>& pairs, std::vector<std::int32_t>& ids) {
  if (ids.size() < 2) return;
  pairs.resize(ids.size() - 1);  // pairs[i]: of ids[i] and ids[i + 1]
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) pairs[i] = merges.find(ids[i], ids[i + 1]);
  while (!pairs.empty()) {
    const auto best = std::min_element(pairs.begin(), pairs.end(),
                                       [](const BpeMerge& a, const BpeMerge& b) { return a.rank < b.rank; });
    if (best->merged == kNoId) return;
    const auto at = static_cast<std::size_t>(best - pairs.begin());
    ids[at] = best->merged;
    ids.erase(ids.begin() + (best - pairs.begin()) + 1);
    pairs.erase(best);
    if (at + 1 < ids.size()) pairs[at] = merges.find(ids[at], ids[at + 1]);
    if (at > 0) pairs[at - 1] = merges.find(ids[at - 1], ids[at]);
  }
}

Bpe::Bpe(PieceTable pieces, BpeOptions options, std::size_t n_merges)
    : pieces_(std::move(pieces)), options_(std::move(options)), merges_(n_merges) {
  index_characters();
  has_affixes_ = !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
}

Bpe::Bpe(PieceTable pieces, const std::vector<Pair>& pairs, BpeOptions options, std::string_view where)
    : Bpe(std::move(pieces), std::move(options), pairs.size()) {
  const std::size_t prefix = options_.continuing_subword_prefix.size();
  std::string merged;
  for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
    const std::string_view left = pieces_.piece(pairs[rank].left), right = pieces_.piece(pairs[rank].right);
    if (left.empty() || right.size() <= prefix) {
      throw BadCheckpoint(where, "expected two pieces to merge, got \"{}\" and \"{}\" in merge {}", left, right, rank);
    }
    merged.assign(left).append(right.substr(prefix));
    const std::int32_t id = pieces_.find(merged);
    if (id == kNoId)
      throw BadCheckpoint(where, "expected \"{}\", the result of merge {}, in the vocabulary", merged, rank);
    add_merge(pairs[rank].left, pairs[rank].right, {static_cast<std::uint32_t>(rank), id});
  }
}

Bpe Bpe::from_ranks(PieceTable pieces, BpeOptions options, std::string_view where) {
  struct Found {
    Pair pair;
    std::int32_t merged;
  };
  std::vector<Found> found;
  std::uint64_t work = 0;
  for (std::int32_t id = 0; id < pieces.size(); ++id) {
    const std::string_view piece = pieces.piece(id);
    work += piece.size() * piece.size();
    if (work > kMaxRankWork)
      throw BadCheckpoint(where, "the pieces are too long: piece {} has {} bytes", id, piece.size());
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      const std::int32_t left = pieces.find(piece.substr(0, cut));
      if (left == kNoId) continue;
      const std::int32_t right = pieces.find(piece.substr(cut));
      if (right == kNoId) continue;
      if (found.size() == MergeTable::kMaxMerges) {
        throw BadCheckpoint(where, "expected at most {} merges that the ranks allow", MergeTable::kMaxMerges);
      }
      found.push_back({{left, right}, id});
    }
  }
  Bpe bpe(std::move(pieces), std::move(options), found.size());
  for (const Found& f : found)
    bpe.add_merge(f.pair.left, f.pair.right, {static_cast<std::uint32_t>(f.merged), f.merged});
  return bpe;
}

void Bpe::add_merge(std::int32_t left, std::int32_t right, BpeMerge merge) {
  merges_.add(left, right, merge);
  boundaries_.add(last_of(pieces_.piece(left), options_.symbols), first_of(pieces_.piece(right), options_.symbols));
}

void Bpe::index_characters() {
  const bool bytes = options_.symbols == BpeOptions::Symbols::bytes;
  small_characters_.assign(bytes ? 256 : kSmallCharacters, kNoId);
  for (std::int32_t id = 0; id < pieces_.size(); ++id) {
    const std::string_view piece = pieces_.piece(id);
    if (piece.empty()) continue;
    if (bytes && piece.size() == 1) small_characters_[static_cast<unsigned char>(piece[0])] = id;
    if (bytes || piece.size() > 3 || character_length(piece) != piece.size() || !is_valid_utf8(piece)) continue;
    small_characters_[code_point(piece)] = id;
  }
  if (!options_.byte_fallback) return;
  for (int byte = 0; byte < 256; ++byte) byte_ids_.push_back(pieces_.find(fmt::format("<0x{:02X}>", byte)));
}

std::int32_t Bpe::character_id(std::string_view character) const {
  if (options_.symbols == BpeOptions::Symbols::bytes)
    return small_characters_[static_cast<unsigned char>(character[0])];
  if (character.size() <= 3) return small_characters_[code_point(character)];
  return pieces_.find(character);
}

/// The next offset after `from` at which the word may be cut without changing the result: between two known characters
/// that no merge joins. Unknown characters may be dropped, fuse or become bytes, so they are not separated from others.
std::size_t Bpe::safe_cut(std::string_view word, std::size_t from) const {
  const bool bytes = options_.symbols == BpeOptions::Symbols::bytes;
  bool previous_known = false;
  std::uint32_t previous = 0;
  for (std::size_t i = from; i < word.size();) {
    const std::size_t length = bytes ? 1 : length_by_lead(word[i]);
    const std::string_view character = word.substr(i, length);
    const std::uint32_t c = bytes ? static_cast<unsigned char>(word[i]) : code_point(character);
    const bool known = c < small_characters_.size() ? small_characters_[c] != kNoId : pieces_.find(character) != kNoId;
    if (previous_known && known && !boundaries_.is_crossed(previous, c)) return i;
    previous = c;
    previous_known = known;
    i += length;
  }
  return word.size();
}

void Bpe::encode(std::string_view word, Workspace& workspace, std::vector<std::int32_t>& ids) const {
  if (word.empty()) return;
  if (options_.ignore_merges) {
    const std::int32_t id = pieces_.find(word);
    if (id != kNoId) return ids.push_back(id);
  }
  // An affix makes a character's symbol depend on its position in the word, so words cannot be cut.
  if (has_affixes_ || word.size() <= WordCache::kMaxWordBytes) return encode_part(word, workspace, ids);
  for (std::size_t from = 0; from < word.size();) {
    const std::size_t cut = safe_cut(word, from);
    encode_part(word.substr(from, cut - from), workspace, ids);
    from = cut;
  }
}

void Bpe::encode_part(std::string_view part, Workspace& workspace, std::vector<std::int32_t>& ids) const {
  const bool cached = part.size() <= WordCache::kMaxWordBytes && workspace.recorder == nullptr;
  if (cached && workspace.cache.find(part, ids)) return;
  std::vector<std::int32_t>& symbols = workspace.ids;
  symbols.clear();
  append_symbols(part, symbols);
  merge(workspace);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
  if (cached) workspace.cache.keep(part, symbols);
  release_if_large(workspace.ids);
  release_if_large(workspace.scratch.symbols);
  release_if_large(workspace.scratch.heap);
}

void Bpe::merge(Workspace& workspace) const {
  EncodingRecorder* const recorder = workspace.recorder;
  std::vector<std::int32_t>& ids = workspace.ids;
  if (recorder == nullptr && ids.size() <= kShortWord) return merge_by_scan(merges_, workspace.merges, ids);
  const auto find = [&](const auto& left, const auto& right) { return merges_.find(left.id, right.id); };
  if (recorder == nullptr) return merge_by_heap(find, workspace.scratch, ids, [](auto&&...) {});
  recorder->rule(Explanation::Word::Rule::merges_by_rank);
  recorder->begin_symbols();
  for (const std::int32_t id : ids) recorder->symbol(pieces_.piece(id));
  merge_by_heap(find, workspace.scratch, ids, [&](const auto& left, const auto& right) {
    recorder->merge(left.merge.rank, static_cast<std::size_t>(right.previous), pieces_.piece(left.id),
                    pieces_.piece(right.id), pieces_.piece(left.merge.merged));
  });
}

/// `unk_pending`: whether an unk is still to be appended, because the next one may fuse with it. (As in `tokenizers`,
/// byte fallback does not append it.)
void Bpe::append_unknown(std::string_view character, bool& unk_pending, std::vector<std::int32_t>& ids) const {
  if (options_.byte_fallback) {
    const auto id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
    if (std::none_of(character.begin(), character.end(), [&](char byte) { return id(byte) == kNoId; })) {
      for (char byte : character) ids.push_back(id(byte));
      return;
    }
  }
  if (options_.unk_id == kNoId) return;
  if (options_.unk_id == kMissingUnk) {
    throw BadInput("tokenizer", "neither \"{}\", which the text contains, nor the unk token is in the vocabulary",
                   character);
  }
  if (unk_pending && !options_.fuse_unk) ids.push_back(options_.unk_id);
  unk_pending = true;
}

void Bpe::append_symbols(std::string_view word, std::vector<std::int32_t>& ids) const {
  const bool bytes = options_.symbols == BpeOptions::Symbols::bytes;
  bool unk_pending = false;
  std::string spelled;
  for (std::size_t i = 0; i < word.size();) {
    const bool is_first = i == 0;
    std::string_view symbol = word.substr(i, bytes ? 1 : length_by_lead(word[i]));
    i += symbol.size();
    if (has_affixes_) {
      spelled.assign(is_first ? "" : options_.continuing_subword_prefix).append(symbol);
      if (i >= word.size()) spelled += options_.end_of_word_suffix;
      symbol = spelled;
    }
    const std::int32_t id = has_affixes_ ? pieces_.find(symbol) : character_id(symbol);
    if (id == kNoId) {
      append_unknown(symbol, unk_pending, ids);
      continue;
    }
    if (unk_pending) ids.push_back(options_.unk_id);
    unk_pending = false;
    ids.push_back(id);
  }
  if (unk_pending) ids.push_back(options_.unk_id);
}

}  // namespace vitrine
