// WordPiece, which takes the longest matching piece first, and WordLevel, whose pieces are whole words.
//
// Sources: Schuster, Nakajima (2012), "Japanese and Korean voice search"; Hugging Face's `tokenizers`
// (models/wordpiece, models/wordlevel).
#pragma once

#include <string>
#include <vector>

#include "tokenizer/algorithms/prefix_trie.h"
#include "tokenizer/algorithms/subword_model.h"

namespace vitrine {

class WordPiece final : public SubwordModel {
 public:
  /// A word with more than `max_input_chars_per_word` characters, or one that cannot be spelled, becomes one unk.
  /// encode() throws BadInput for it if there is no unk.
  WordPiece(PieceTable pieces, std::int32_t unk_id, const std::string& continuing_subword_prefix,
            std::int64_t max_input_chars_per_word);
  void encode(std::string_view word, SubwordWorkspace& workspace, std::vector<std::int32_t>& ids) const override;
  const PieceTable& pieces() const override { return pieces_; }
  std::int32_t unknown() const override { return unk_id_; }
  Spelling spelling() const override { return {continuing_prefix_, {}, true}; }

 private:
  PieceTable pieces_;
  std::string continuing_prefix_;
  PrefixTrie first_, continuing_;  // continuing pieces are stored without their prefix
  std::int32_t unk_id_;
  std::int64_t max_characters_;
};

class WordLevel final : public SubwordModel {
 public:
  WordLevel(PieceTable pieces, std::int32_t unk_id) : pieces_(std::move(pieces)), unk_id_(unk_id) {}
  void encode(std::string_view word, SubwordWorkspace& workspace, std::vector<std::int32_t>& ids) const override;
  const PieceTable& pieces() const override { return pieces_; }
  std::int32_t unknown() const override { return unk_id_; }

 private:
  PieceTable pieces_;
  std::int32_t unk_id_;
};

}  // namespace vitrine
