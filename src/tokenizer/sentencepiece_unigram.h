// SentencePiece's unigram model: the cut of a text into pieces whose scores sum to the most.
//
// Scores are log probabilities; the best path is found by dynamic programming over the ends of pieces (Viterbi).
// Source: google/sentencepiece, unigram_model.cc (Model::EncodeOptimized), in single precision as there, since ties
// are decided by rounding. Paper: Kudo (2018), arXiv 1804.10959.
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
    std::int32_t id;          ///< The unknown piece's id for a character that no piece begins with alone.
  };

  /// The pieces of a normalized text, first to last; `recorder` may be null.
  std::vector<Piece> encode(std::string_view text, EncodingRecorder* recorder) const;

 private:
  struct Rule {
    float score = 0;
    bool user_defined = false;
  };
  float score(std::int32_t id, std::size_t length) const;

  PrefixTrie trie_;  // pieces of text, without unused ones
  std::vector<Rule> rules_;
  std::int32_t unk_;
  float unk_score_ = 0;
};

}  // namespace vitrine
