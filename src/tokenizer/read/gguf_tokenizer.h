// The base of all kinds of GGUF tokenizer: BOS, EOS, special tokens, pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/algorithms/prefix_trie.h"
#include "tokenizer/read/gguf_vocab.h"

namespace vitrine {

/// Special tokens are found in a text as in llama.cpp: one token after another, the longest first. A longer token takes
/// precedence over one further left: with the tokens "ab" and "bcd", "abcd" becomes "a" and "bcd". Source:
/// ggml-org/llama.cpp, src/llama-vocab.cpp (tokenizer_st_partition).
class GgufTokenizer : public Tokenizer {
 public:
  std::string piece(std::int32_t id) const final { return at(id).text; }
  bool is_text(std::int32_t id) const final { return !at(id).is_control() && at(id).type != PieceType::unused; }
  std::int64_t vocab_size() const final { return static_cast<std::int64_t>(vocabulary_.pieces.size()); }
  std::optional<std::int32_t> bos() const final { return vocabulary_.bos; }
  const std::vector<std::int32_t>& stop_ids() const final { return vocabulary_.stop_ids; }

 protected:
  explicit GgufTokenizer(GgufVocabulary vocabulary);

  const GgufVocabulary& vocabulary() const { return vocabulary_; }
  const GgufVocabulary::Piece& at(std::int32_t id) const { return vocabulary_.pieces[checked_index(id)]; }
  /// Appends the ids of a text without special tokens. `is_first`: the text is at the beginning or follows a special
  /// token. `recorder` may be null.
  virtual void encode_text(std::string_view text, bool is_first, EncodingRecorder* recorder,
                           std::vector<std::int32_t>& ids) const = 0;

 private:
  struct Fragment {
    std::string_view text;
    std::int32_t id = kNoId;  // kNoId: plain text
  };
  std::vector<std::int32_t> encode(std::string_view text, const SpecialRule& rule,
                                   EncodingRecorder* recorder) const final;
  /// As llama-server joins a query and a document.
  PairEncoding encode_texts(std::string_view a, std::string_view b, SpecialTokens policy,
                            std::optional<std::int64_t> most) const final;
  std::vector<Fragment> split(std::string_view text, const SpecialRule& rule) const;
  void split_at(std::int32_t id, std::string_view text, const SpecialRule& rule,
                std::vector<Fragment>& fragments) const;

  GgufVocabulary vocabulary_;
  std::vector<std::int32_t> special_;  // control, unknown and user-defined tokens, longest first
  PrefixTrie special_trie_;            // text → index in special_
};

}  // namespace vitrine
