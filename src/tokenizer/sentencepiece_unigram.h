// SentencePiece's unigram model: divides a text into the pieces whose scores have the largest sum (Viterbi algorithm).
//
// Scores are log probabilities. Sums are in single precision, as in SentencePiece, because rounding decides ties.
// Sources: google/sentencepiece, unigram_model.cc (Model::EncodeOptimized); Kudo (2018), arXiv 1804.10959.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/explanation.h"
#include "tokenizer/piece_table.h"
#include "tokenizer/prefix_trie.h"
#include "tokenizer/sentencepiece_model.h"

namespace vitrine {

class SentencePieceUnigram {
 public:
  explicit SentencePieceUnigram(const SentencePieceModel& model);

  struct Piece {
    std::size_t begin, size;  ///< Bytes of the text.
    std::int32_t id;          ///< That of the unknown piece for a character that is not a piece.
  };

  /// The pieces of a normalized text, in order. `recorder` may be null.
  std::vector<Piece> encode(std::string_view text, EncodingRecorder* recorder) const;

 private:
  struct Rule {
    float score = 0;
    bool user_defined = false;
  };
  float score(std::int32_t id, std::size_t length) const;

  PrefixTrie trie_;  // the normal and user-defined pieces
  std::vector<Rule> rules_;
  std::int32_t unk_;
  float unk_score_ = 0;
};

}  // namespace vitrine
