// Byte pair encoding: a word's symbols are merged pair by pair, the pair of lowest rank first, until none is left.
//
// Source of the rule: Sennrich, Haddow, Birch (2016), arXiv 1508.07909; options and their corner cases as Hugging
// Face's `tokenizers` (models/bpe). Among pairs of equal rank the leftmost is merged first. Time is O(n log n) in the
// length of the word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/explanation.h"
#include "tokenizer/piece_table.h"
#include "tokenizer/word_cache.h"

namespace vitrine {

/// Names as in tokenizer.json.
struct BpeOptions {
  enum class Symbols {
    characters,  ///< a word begins as its characters (those of a byte-level alphabet included)
    bytes,       ///< a word begins as its bytes: pieces are raw bytes, as in tiktoken
  };
  Symbols symbols = Symbols::characters;
  bool ignore_merges = false;   ///< a word that is a piece itself is that piece, whatever merging would give
  bool byte_fallback = false;   ///< an unknown character becomes <0xNN>, one for each of its bytes
  bool fuse_unk = false;        ///< adjacent unknown characters make one unk
  std::int32_t unk_id = kNoId;  ///< kNoId: unknown characters vanish; kMissingUnk: they are an error
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
};

/// An unk token is named but is not in the vocabulary: an error when it is needed, as in `tokenizers`.
constexpr std::int32_t kMissingUnk = -2;

/// What a merge makes, and when.
struct BpeMerge {
  std::uint32_t rank = 0xFFFFFFFF;
  std::int32_t merged = kNoId;
};

/// Pair of ids → merge, in one flat array.
class MergeTable {
 public:
  static constexpr std::size_t kMaxMerges = std::size_t{1} << 21;

  explicit MergeTable(std::size_t n_merges);

  /// A pair that stands already gets the new rank, as in `tokenizers`. At most as many pairs as the constructor was
  /// told.
  void add(std::int32_t left, std::int32_t right, BpeMerge merge);

  /// A merge without an id where the pair is never merged.
  const BpeMerge& find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = make_key(left, right);
    std::size_t i = hash_number(key) & mask_;
    while (slots_[i].key != key && slots_[i].key != kFree) i = (i + 1) & mask_;
    return slots_[i].merge;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // no pair: ids are not negative
  struct Slot {
    std::uint64_t key = kFree;
    BpeMerge merge;
  };
  static std::uint64_t make_key(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
};

/// Whether some merge reaches over the boundary between two characters. Where none does, a text may be cut there
/// before merging without any change to the result. (Two characters for each merge: the last one of its left piece and
/// the first one of its right piece.)
class MergeBoundaries {
 public:
  MergeBoundaries();
  void add(std::uint32_t last, std::uint32_t first);
  /// May say yes where the answer is no, never the other way round.
  bool is_crossed(std::uint32_t last, std::uint32_t first) const {
    const std::size_t i = index(last, first);
    return (bits_[i / 64] >> (i % 64) & 1) != 0;
  }

 private:
  static constexpr std::size_t kSmall = 256;  // pairs of such characters have bits of their own
  static constexpr std::size_t kHashed = std::size_t{1} << 20;
  static std::size_t index(std::uint32_t last, std::uint32_t first) {
    if ((last | first) < kSmall) return last * kSmall + first;
    return kSmall * kSmall + (hash_number((std::uint64_t{last} << 32) | first) & (kHashed - 1));
  }
  std::vector<std::uint64_t> bits_;
};

/// Tells a recorder of merges, as pieces.
struct MergeListener {
  EncodingRecorder& recorder;
  const PieceTable& pieces;
};

/// The merge engine. Immutable; what a thread writes is in its Workspace.
class Bpe {
 public:
  /// A pair of pieces, by id. Its rank is its place in the list.
  struct Pair {
    std::int32_t left;
    std::int32_t right;
  };

  /// What one thread needs while it encodes; serves one Bpe only, for its cache holds that one's ids.
  struct Workspace {
    struct Symbol {
      std::int32_t id;
      std::int32_t previous;
      std::int32_t next;
      BpeMerge merge;  // of the pair that begins here
    };
    WordCache cache;
    EncodingRecorder* recorder = nullptr;  // set by who takes the workspace; the cache serves only where it is null
    std::vector<std::int32_t> ids;
    std::vector<BpeMerge> merges;
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> heap;
  };

  /// `where` names the file in errors. Throws BadCheckpoint where what a merge makes is not a piece.
  Bpe(PieceTable pieces, const std::vector<Pair>& pairs, BpeOptions options, std::string_view where);

  /// From ranks alone, as tiktoken: two adjacent pieces are merged where together they are a piece; the rank of that
  /// is its id. Throws BadCheckpoint where the pieces allow more than MergeTable::kMaxMerges merges.
  static Bpe from_ranks(PieceTable pieces, BpeOptions options, std::string_view where);

  /// Appends the ids of `word`: of what a pre-tokenizer cut, or of a whole text where there is none. Valid UTF-8, or
  /// any bytes where symbols are bytes.
  void encode(std::string_view word, Workspace& workspace, std::vector<std::int32_t>& ids) const;

  const PieceTable& pieces() const { return pieces_; }
  const BpeOptions& options() const { return options_; }

 private:
  Bpe(PieceTable pieces, BpeOptions options, std::size_t n_merges);
  void index_characters();
  void add_merge(std::int32_t left, std::int32_t right, BpeMerge merge);

  std::size_t safe_cut(std::string_view word, std::size_t from) const;
  void encode_part(std::string_view part, Workspace& workspace, std::vector<std::int32_t>& ids) const;
  void merge(Workspace& workspace, const MergeListener* listener) const;
  void merge_recorded(Workspace& workspace) const;
  void symbols_of(std::string_view word, std::vector<std::int32_t>& ids) const;
  void symbols_with_affixes(std::string_view word, std::vector<std::int32_t>& ids) const;
  std::int32_t character_id(std::string_view character) const;
  void append_unknown(std::string_view character, bool& unk_pending, std::vector<std::int32_t>& ids) const;

  PieceTable pieces_;
  BpeOptions options_;
  MergeTable merges_;
  MergeBoundaries boundaries_;
  bool may_cut_ = false;
  std::vector<std::int32_t> small_characters_;  // ids of the characters below U+10000, or of the bytes
  std::vector<std::int32_t> byte_ids_;          // of <0x00> to <0xFF>, with byte_fallback
};

/// Merges `ids` in place. Two ways to the same result: a scan for each merge (short words), a heap (any length).
/// `listener` may be null.
void merge_by_scan(const MergeTable& merges, Bpe::Workspace& workspace, std::vector<std::int32_t>& ids,
                   const MergeListener* listener = nullptr);
void merge_by_heap(const MergeTable& merges, Bpe::Workspace& workspace, std::vector<std::int32_t>& ids,
                   const MergeListener* listener = nullptr);

}  // namespace vitrine
