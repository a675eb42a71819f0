// Added tokens: texts that are one token wherever they stand, found before the rest is normalized and cut.
//
// Rules: Hugging Face's `tokenizers`, src/tokenizer/added_vocabulary.rs. Tokens that are not normalized are looked for
// in the text as it came, then the others, normalized themselves, in the normalized rest; each time the leftmost match
// counts, the longest of those.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "tokenizer/function_ref.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/piece_table.h"
#include "tokenizer/prefix_trie.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Names as in tokenizer.json.
struct AddedToken {
  std::int32_t id;
  std::string content;
  bool single_word;  ///< only where neither neighbour is a word character
  bool lstrip;       ///< takes the white space before it
  bool rstrip;       ///< takes the white space behind it
  bool normalized;   ///< looked for in the normalized text
  bool special;      ///< control: not recognized where nothing is, left out of decoded text
};

/// Reads the list. Throws BadCheckpoint where it is malformed, an id or a content stands twice, or the vocabulary
/// gives the content another id or the id another content.
std::vector<AddedToken> parse_added_tokens(const Json& json, const PieceTable& pieces, std::string_view where);

class AddedTokens {
 public:
  AddedTokens() = default;
  /// `normalizer` may be null.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  using Text = FunctionRef<void(std::string_view)>;
  using Token = FunctionRef<void(std::int32_t)>;
  /// Calls `text` and `token` for what `raw`, a text as it came, consists of. With SpecialTokens::none special tokens
  /// stay text; other added tokens are part of the vocabulary, so they are still found.
  void split_raw(std::string_view raw, SpecialTokens policy, Text text, Token token) const {
    split(raw_, raw, policy, text, token);
  }
  void split_normalized(std::string_view normalized, SpecialTokens policy, Text text, Token token) const {
    split(normalized_, normalized, policy, text, token);
  }

  /// Null pointer where the id is no added token.
  const AddedToken* find(std::int32_t id) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  void split(const PrefixTrie& trie, std::string_view all, SpecialTokens policy, Text text, Token token) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::int32_t, std::size_t> by_id_;
  PrefixTrie raw_, normalized_;  // values: places in tokens_
};

}  // namespace vitrine
