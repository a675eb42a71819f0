// Merging by score, as SentencePiece's BPE and llama.cpp's SPM do: of all adjacent pairs that together are a piece, the
// one whose piece scores best is merged first, the leftmost among equals, until no pair is a piece.
//
// Unlike Bpe (bpe.h) there are no merges to list: what two symbols make is looked up by its text, so a symbol need not
// be a piece itself. Source: google/sentencepiece, bpe_model.cc (Model::SampleEncode with alpha 0). O(n log n).
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/piece_table.h"
#include "tokenizer/word_cache.h"

namespace vitrine {

/// Immutable once filled; what a thread writes is in its Workspace.
class PieceMerger {
 public:
  /// What one thread needs while it encodes; serves one PieceMerger only.
  struct Workspace {
    struct Symbol {
      std::uint32_t begin, size;  // bytes of the segment; size 0: merged into its left neighbour
      std::int32_t previous, next;
      std::int32_t id;    // kNoId where it is no piece
      std::int32_t pair;  // the piece that this symbol and the next one make; kNoId where they make none
    };
    WordCache cache;
    EncodingRecorder* recorder = nullptr;  // as Bpe::Workspace has one
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> heap;  // pairs that were found: score and left symbol, the next to merge on top
    std::unordered_map<std::int32_t, std::uint32_t> left_sizes;  // how an unused piece was made, last time
  };

  /// Adds a piece that merging may make. False where its text or id stands already. An `unused` one is made, then taken
  /// apart again.
  bool add(std::string_view text, std::int32_t id, float score, bool unused = false);

  /// Adds a text that merging does not make, but which names a symbol that is there: it goes before a piece.
  bool add_reserved(std::string_view text, std::int32_t id) { return reserved_.add(text, id); }

  /// What an unknown character becomes: its bytes by `byte_ids` (256 of them), else `unk`, else nothing.
  void set_unknown(std::int32_t unk, std::vector<std::int32_t> byte_ids);

  /// Appends the ids of `text`, which may hold any bytes.
  void encode(std::string_view text, Workspace& workspace, std::vector<std::int32_t>& ids) const;

  /// Of any piece that was added, reserved or not; kNoId where there is none.
  std::int32_t find(std::string_view text) const;

 private:
  void encode_segment(std::string_view segment, Workspace& workspace, std::vector<std::int32_t>& ids) const;
  void record(std::string_view segment, const Workspace& workspace, std::int32_t left) const;
  void split(std::string_view segment, std::vector<Workspace::Symbol>& symbols) const;
  void find_pair(std::string_view segment, std::int32_t left, Workspace& workspace) const;
  void append(std::string_view symbol, std::int32_t id, Workspace& workspace, std::vector<std::int32_t>& ids) const;
  void append_unused(std::string_view piece, Workspace& workspace, std::vector<std::int32_t>& ids) const;
  bool is_unused(std::int32_t id) const { return has_unused_ && id != kNoId && unused_[static_cast<std::size_t>(id)]; }

  PieceTable pieces_, reserved_;
  std::vector<std::uint32_t> order_;  // by id: less is better
  std::vector<float> scores_;         // by id
  std::vector<bool> unused_;          // by id
  bool has_unused_ = false;
  std::size_t longest_ = 0;     // bytes of the longest piece
  MergeBoundaries boundaries_;  // of neighbours in some piece: elsewhere a text may be cut before merging
  std::int32_t unk_ = kNoId;
  std::vector<std::int32_t> byte_ids_;
};

}  // namespace vitrine
