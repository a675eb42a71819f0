// Special tokens written in a text, as llama.cpp finds them: token by token, the longest token first.
//
// Not the leftmost first: of "ab" and "bcd" in "abcd" it is "bcd" that is found.
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

  /// The text, cut at special tokens. Those of the user are found in any case, control tokens and the unknown ones only
  /// where `recognize_control` says so.
  std::vector<Fragment> cut(std::string_view text, bool recognize_control) const;

 private:
  struct Token {
    std::int32_t id;
    std::string text;
    bool is_control, strip_left, strip_right;
  };
  void cut_at(const Token& token, std::string_view text, std::vector<Fragment>& fragments) const;

  std::vector<Token> tokens_;  // the longest first
  PrefixTrie trie_;            // text → index in tokens_
};

}  // namespace vitrine
