// Unigram: divides a word into the pieces whose scores, log probabilities as doubles, have the largest sum.
//
// Source of corner cases: Hugging Face's `tokenizers` (models/unigram, encode_optimized).
#pragma once

#include <string>
#include <vector>

#include "tokenizer/algorithms/prefix_trie.h"
#include "tokenizer/algorithms/subword_model.h"

namespace vitrine {

class Unigram final : public SubwordModel {
 public:
  /// `scores` are indexed by id. An unknown character scores 10 less than the worst piece. Adjacent unknown characters
  /// become one unk, or their bytes with `byte_fallback`. encode() throws BadInput for them if `unk_id` is kNoId.
  Unigram(PieceTable pieces, std::vector<double> scores, std::int32_t unk_id, bool byte_fallback);

  void encode(std::string_view word, SubwordWorkspace& workspace, std::vector<std::int32_t>& ids) const override;
  const PieceTable& pieces() const override { return pieces_; }
  std::int32_t unknown() const override { return unk_id_; }

 private:
  void append_unknown(std::string_view text, std::vector<std::int32_t>& ids) const;

  PieceTable pieces_;
  std::vector<double> scores_;
  PrefixTrie trie_;
  std::int32_t unk_id_;
  double unk_score_;
  std::vector<std::int32_t> byte_ids_;  // of <0x00> to <0xFF>; empty without byte_fallback
};

}  // namespace vitrine
