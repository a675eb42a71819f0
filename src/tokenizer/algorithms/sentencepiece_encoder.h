// Divides texts into the pieces of a SentencePiece model, with the same result as the SentencePiece library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/algorithms/piece_merge.h"
#include "tokenizer/read/sentencepiece_model.h"
#include "tokenizer/sentencepiece_normalizer.h"

namespace vitrine {

/// The unigram model. Sums are in single precision, as in SentencePiece. Source: google/sentencepiece, unigram_model.cc
/// (Model::EncodeOptimized).
class SentencePieceUnigram {
 public:
  explicit SentencePieceUnigram(const SentencePieceModel& model);

  /// Appends the ids of a normalized text. A character that is not a piece becomes the ids of its bytes (`byte_ids`,
  /// 256 or none), otherwise the id of the unknown piece.
  void encode(std::string_view text, const std::vector<std::int32_t>& byte_ids, std::vector<std::int32_t>& ids,
              EncodingRecorder* recorder) const;

 private:
  PrefixTrie trie_;            // the normal and user-defined pieces
  std::vector<float> scores_;  // by id
  std::int32_t unk_;
  float unk_score_ = 0;
};

/// Does not recognize control pieces in a text. Immutable and thread-safe.
class SentencePieceEncoder {
 public:
  explicit SentencePieceEncoder(SentencePieceModel model);
  SentencePieceEncoder(const SentencePieceEncoder&) = delete;
  SentencePieceEncoder& operator=(const SentencePieceEncoder&) = delete;

  /// Appends the ids of a part of a text. Adjacent unknown pieces become one. `recorder` may be null.
  void encode(std::string_view text, SentencePieceNormalizer::Place place, std::vector<std::int32_t>& ids,
              EncodingRecorder* recorder) const;

  /// A whole text as pieces. Adjacent unknown characters are one piece, spelled as in the normalized text.
  struct Spelling {
    std::string normalized;
    std::vector<std::string> pieces;
  };
  Spelling spell(std::string_view text) const;

  const SentencePieceModel& model() const { return model_; }

 private:
  /// Appends ids, of which each unknown one is one character.
  void encode_normalized(std::string_view normal, std::vector<std::int32_t>& ids, EncodingRecorder* recorder) const;
  void encode_bpe(std::string_view normal, std::vector<std::int32_t>& ids, EncodingRecorder* recorder) const;

  SentencePieceModel model_;
  SentencePieceNormalizer normalizer_;
  std::vector<std::int32_t> byte_ids_;
  std::optional<SentencePieceUnigram> unigram_;
  PieceMerger merger_;
  mutable ObjectPool<PieceMerger::Workspace> workspaces_;
};

}  // namespace vitrine
