// WordPiece, the longest piece first, and WordLevel, a whole word or nothing.
//
// Source: Schuster, Nakajima (2012), "Japanese and Korean voice search"; as Hugging Face's `tokenizers`
// (models/wordpiece, models/wordlevel).
#pragma once

#include <string>
#include <vector>

#include "tokenizer/prefix_trie.h"
#include "tokenizer/subword_model.h"

namespace vitrine {

class WordPiece final : public SubwordModel {
 public:
  /// A word that has more characters, or cannot be spelled, is unk as a whole.
  WordPiece(PieceTable pieces, std::int32_t unk_id, const std::string& continuing_subword_prefix,
            std::int64_t max_input_chars_per_word);
  void encode(std::string_view word, SubwordWorkspace& workspace, std::vector<std::int32_t>& ids) const override;
  const PieceTable& pieces() const override { return pieces_; }

 private:
  PieceTable pieces_;
  PrefixTrie first_, continuing_;  // the latter without the prefix
  std::int32_t unk_id_;
  std::int64_t max_characters_;
};

class WordLevel final : public SubwordModel {
 public:
  WordLevel(PieceTable pieces, std::int32_t unk_id) : pieces_(std::move(pieces)), unk_id_(unk_id) {}
  void encode(std::string_view word, SubwordWorkspace& workspace, std::vector<std::int32_t>& ids) const override;
  const PieceTable& pieces() const override { return pieces_; }

 private:
  PieceTable pieces_;
  std::int32_t unk_id_;
};

}  // namespace vitrine
