// Added tokens are texts that always become one token. They are found before the rest of the text is normalized and
// split.
//
// Source of the rules: Hugging Face's `tokenizers`, src/tokenizer/added_vocabulary.rs. Tokens that are not normalized
// are searched for in the original text. The others are normalized and searched for in the normalized rest of the text.
// Each search takes the leftmost match, and the longest one if there are several.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/algorithms/prefix_trie.h"
#include "tokenizer/function_ref.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// The names are those of tokenizer.json.
struct AddedToken {
  std::int32_t id;
  std::string content;
  bool single_word;     ///< matches only if neither neighbor is a word character
  bool lstrip;          ///< includes the white space before it
  bool rstrip;          ///< includes the white space after it
  bool normalized;      ///< is searched for in the normalized text
  bool special;         ///< is not recognized with SpecialTokens::none, and is omitted from decoded text
  bool is_fim = false;  ///< is not recognized by a rule with fim_is_text
};

/// Reads the list. Throws BadCheckpoint if it is malformed, if an id or a content appears twice, or if the vocabulary
/// has the content with another id or the id with another content; Unsupported for more than 65,536 tokens.
std::vector<AddedToken> parse_added_tokens(const Json& json, const PieceTable& pieces, std::string_view where);

class AddedTokens {
 public:
  AddedTokens() = default;
  /// `normalizer` may be null. `splits_special`: special tokens are text, whatever a rule says.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer, bool splits_special = false);

  using Text = FunctionRef<void(std::string_view)>;
  using Token = FunctionRef<void(std::int32_t id, std::string_view match)>;
  /// Calls `token` for each added token of `raw`, a text before normalization, with the part that it is, and `text` for
  /// the parts between them. Special tokens that `rule` does not recognize are text; other added tokens are always
  /// found.
  void split_raw(std::string_view raw, const SpecialRule& rule, Text text, Token token) const {
    split(raw_, raw, rule, text, token);
  }
  void split_normalized(std::string_view normalized, const SpecialRule& rule, Text text, Token token) const {
    split(normalized_, normalized, rule, text, token);
  }

  /// Sets is_fim of the tokens with these ids.
  void mark_fim(const std::vector<std::int32_t>& ids);

  /// The added token with this id, or null.
  const AddedToken* find(std::int32_t id) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// What a decoder gets for the token with this id: its content, normalized if the token is; null without the token.
  const std::string* spelling(std::int32_t id) const;

 private:
  void split(const PrefixTrie& trie, std::string_view all, const SpecialRule& rule, Text text, Token token) const;

  std::vector<AddedToken> tokens_;
  std::vector<std::string> spellings_;
  std::unordered_map<std::int32_t, std::size_t> by_id_;
  PrefixTrie raw_, normalized_;  // values: indices into tokens_
  bool splits_special_ = false;
};

}  // namespace vitrine
