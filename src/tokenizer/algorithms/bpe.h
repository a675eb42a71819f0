// Byte pair encoding: merges adjacent symbols of a word, always the leftmost pair with the lowest rank, until no pair
// has a merge.
//
// Source: Sennrich, Haddow, Birch (2016), arXiv 1508.07909. Options and corner cases follow Hugging Face's `tokenizers`
// (models/bpe). Encoding takes O(n log n) time in the length of the word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/algorithms/merge_by_heap.h"
#include "tokenizer/algorithms/word_cache.h"
#include "tokenizer/explanation.h"

namespace vitrine {

/// The names are those of tokenizer.json.
struct BpeOptions {
  enum class Symbols {
    characters,  ///< the initial symbols are the characters of the word
    bytes,       ///< the initial symbols are its bytes; pieces are raw bytes, as in tiktoken
  };
  Symbols symbols = Symbols::characters;
  bool ignore_merges = false;   ///< a word that is in the vocabulary becomes that piece without merging
  bool byte_fallback = false;   ///< an unknown character becomes a piece <0xNN> for each of its bytes
  bool fuse_unk = false;        ///< adjacent unknown characters become a single unk
  std::int32_t unk_id = kNoId;  ///< kNoId: unknown characters are dropped; kMissingUnk: they are an error
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
};

/// The unk token has a name but is not in the vocabulary. As in `tokenizers`, it is an error only when it is needed.
constexpr std::int32_t kMissingUnk = -2;

/// Maps pairs of ids to merges, in one flat array.
class MergeTable {
 public:
  static constexpr std::size_t kMaxMerges = std::size_t{1} << 21;

  explicit MergeTable(std::size_t n_merges);

  /// Replaces the merge of a pair that was added before, as `tokenizers` does. At most `n_merges` pairs may be added.
  void add(std::int32_t left, std::int32_t right, BpeMerge merge);

  /// Returns a merge whose `merged` is kNoId if the pair has none.
  const BpeMerge& find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = make_key(left, right);
    std::size_t i = hash_number(key) & mask_;
    while (slots_[i].key != key && slots_[i].key != kFree) i = (i + 1) & mask_;
    return slots_[i].merge;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // not a pair, because ids are not negative
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

/// The pairs of characters between which a merge can join pieces. A text may be cut between other characters before
/// merging, with the same result. Each merge adds the last character of its left piece and the first of its right
/// piece.
class MergeBoundaries {
 public:
  MergeBoundaries();
  void add(std::uint32_t last, std::uint32_t first);
  /// Whether a merge may join pieces between `last` and `first`. Hash collisions cause false positives only.
  bool is_crossed(std::uint32_t last, std::uint32_t first) const {
    const std::size_t i = index(last, first);
    return (bits_[i / 64] >> (i % 64) & 1) != 0;
  }

 private:
  static constexpr std::size_t kSmall = 256;  // pairs of code points below it have their own bits
  static constexpr std::size_t kHashed = std::size_t{1} << 20;
  static std::size_t index(std::uint32_t last, std::uint32_t first) {
    if ((last | first) < kSmall) return last * kSmall + first;
    return kSmall * kSmall + (hash_number((std::uint64_t{last} << 32) | first) & (kHashed - 1));
  }
  std::vector<std::uint64_t> bits_;
};

/// Immutable and thread-safe: each thread passes its own Workspace.
class Bpe {
 public:
  /// A pair of pieces, by id. Its rank is its index in the list.
  struct Pair {
    std::int32_t left;
    std::int32_t right;
  };

  /// The memory of one thread. It belongs to one Bpe, because its cache holds ids.
  struct Workspace {
    WordCache cache;
    EncodingRecorder* recorder = nullptr;  // set by the caller that leases the workspace; disables the cache
    std::vector<std::int32_t> ids;
    std::vector<BpeMerge> merges;
    MergeScratch scratch;
  };

  /// `where` names the file in errors. Throws BadCheckpoint if a piece or the result of a merge is not in `pieces`.
  Bpe(PieceTable pieces, const std::vector<Pair>& pairs, BpeOptions options, std::string_view where);

  /// Derives the merges as tiktoken does: two adjacent pieces are merged if their concatenation is a piece, whose id is
  /// the rank. Throws BadCheckpoint if there are more than MergeTable::kMaxMerges or the pieces are too long.
  static Bpe from_ranks(PieceTable pieces, BpeOptions options, std::string_view where);

  /// Appends the ids of `word`, a pre-token or a whole text. It must be valid UTF-8 unless symbols are bytes.
  void encode(std::string_view word, Workspace& workspace, std::vector<std::int32_t>& ids) const;

  const PieceTable& pieces() const { return pieces_; }
  const BpeOptions& options() const { return options_; }

 private:
  Bpe(PieceTable pieces, BpeOptions options, std::size_t n_merges);
  void index_characters();
  void add_merge(std::int32_t left, std::int32_t right, BpeMerge merge);

  std::size_t safe_cut(std::string_view word, std::size_t from) const;
  void encode_part(std::string_view part, Workspace& workspace, std::vector<std::int32_t>& ids) const;
  void merge(Workspace& workspace) const;
  void append_symbols(std::string_view word, std::vector<std::int32_t>& ids) const;
  std::int32_t character_id(std::string_view character) const;
  void append_unknown(std::string_view character, bool& unk_pending, std::vector<std::int32_t>& ids) const;

  PieceTable pieces_;
  BpeOptions options_;
  MergeTable merges_;
  MergeBoundaries boundaries_;
  bool has_affixes_ = false;
  std::vector<std::int32_t> small_characters_;  // ids of the characters below U+10000, or of bytes
  std::vector<std::int32_t> byte_ids_;          // of <0x00> to <0xFF>, with byte_fallback
};

/// Merges `ids` in place with the same result as merge_by_heap, but scans all pairs for each merge, which is faster for
/// short words. `pairs` is scratch.
void merge_by_scan(const MergeTable& merges, std::vector<BpeMerge>& pairs, std::vector<std::int32_t>& ids);

}  // namespace vitrine
