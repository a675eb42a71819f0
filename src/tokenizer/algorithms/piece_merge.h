// Merges by score, as SentencePiece's BPE and llama.cpp's SPM do: of all adjacent pairs whose concatenation is a piece,
// the leftmost one whose piece has the highest score is always merged next, until no pair is left.
//
// Unlike Bpe (bpe.h), this has no list of merges. The piece that two symbols form is looked up by its text, so a symbol
// need not be a piece. Takes O(n log n). Source: google/sentencepiece, bpe_model.cc (Model::SampleEncode with alpha 0).
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/algorithms/bpe.h"
#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/algorithms/word_cache.h"

namespace vitrine {

/// The length of the character at the front of `text`, derived from its first byte alone, as in SentencePiece and
/// llama.cpp. `text` may be invalid UTF-8 but must not be empty.
std::size_t sentencepiece_character(std::string_view text);

/// Immutable and thread-safe once all pieces are added: each thread passes its own Workspace.
class PieceMerger {
 public:
  /// The memory of one thread. It belongs to one PieceMerger, because its cache holds ids.
  struct Workspace {
    WordCache cache;
    EncodingRecorder* recorder = nullptr;  // set by the caller that leases the workspace; disables the cache
    std::vector<std::uint32_t> begins;     // of the characters of a segment, and its end
    std::vector<std::int32_t> ids;         // of its symbols; kNoId: not a piece
    MergeScratch scratch;
    std::unordered_map<std::int32_t, std::uint32_t> left_sizes;  // by unused piece: the size of its left part
  };

  /// Adds a piece that merges may form. Returns false if its text or id is in use. An `unused` piece is split again
  /// after merging.
  bool add(std::string_view text, std::int32_t id, float score, bool unused = false);

  /// Adds a piece that merges do not form. A remaining symbol with this text gets `id`, even if it is also a piece.
  bool add_reserved(std::string_view text, std::int32_t id) { return reserved_.add(text, id); }

  /// An unknown character becomes the ids of its bytes (`byte_ids`, 256 or none), otherwise `unk`, otherwise nothing.
  void set_unknown(std::int32_t unk, std::vector<std::int32_t> byte_ids);

  /// Appends the ids of `text`, which may contain any bytes.
  void encode(std::string_view text, Workspace& workspace, std::vector<std::int32_t>& ids) const;

  /// The id of any piece, reserved or not, or kNoId.
  std::int32_t find(std::string_view text) const;

 private:
  void encode_segment(std::string_view segment, Workspace& workspace, std::vector<std::int32_t>& ids) const;
  void merge(std::string_view segment, Workspace& workspace, std::vector<std::int32_t>& ids) const;
  void append(std::string_view symbol, std::int32_t id, Workspace& workspace, std::vector<std::int32_t>& ids) const;
  void append_unused(std::string_view piece, Workspace& workspace, std::vector<std::int32_t>& ids) const;
  bool is_unused(std::int32_t id) const { return has_unused_ && id != kNoId && unused_[static_cast<std::size_t>(id)]; }
  float score(std::int32_t id) const { return scores_[static_cast<std::size_t>(id)]; }

  PieceTable pieces_, reserved_;
  std::vector<float> scores_;  // by id
  std::vector<bool> unused_;   // by id
  bool has_unused_ = false;
  std::size_t longest_ = 0;     // bytes of the longest piece
  MergeBoundaries boundaries_;  // between the characters of pieces
  std::int32_t unk_ = kNoId;
  std::vector<std::int32_t> byte_ids_;
};

}  // namespace vitrine
