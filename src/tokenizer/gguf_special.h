// Finds special tokens in a text as llama.cpp does: one token after the other, the longest token first.
//
// Longer tokens take precedence over tokens further left: of "ab" and "bcd", "abcd" contains "bcd".
// Source: ggml-org/llama.cpp, src/llama-vocab.cpp (tokenizer_st_partition).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/gguf_vocab.h"
#include "tokenizer/piece_table.h"
#include "tokenizer/prefix_trie.h"

namespace vitrine {

class GgufSpecialTokens {
 public:
  GgufSpecialTokens() = default;
  explicit GgufSpecialTokens(const std::vector<GgufVocabulary::Piece>& pieces);

  struct Fragment {
    std::string_view text;
    std::int32_t id = kNoId;  ///< kNoId: plain text.
  };

  /// Splits the text at special tokens. Control and unknown tokens are recognized only if `recognize_control`,
  /// user-defined tokens always.
  std::vector<Fragment> split(std::string_view text, bool recognize_control) const;

 private:
  struct Token {
    std::int32_t id;
    std::string text;
    bool is_control, strip_left, strip_right;
  };
  void split_at(const Token& token, std::string_view text, std::vector<Fragment>& fragments) const;

  std::vector<Token> tokens_;  // longest first
  PrefixTrie trie_;            // text → index in tokens_
};

}  // namespace vitrine
