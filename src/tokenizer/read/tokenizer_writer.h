// Writes trained tokenizers as tokenizer.json, which vitrine and Hugging Face's `tokenizers` read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/train/bpe_trainer.h"

namespace vitrine {

/// Special tokens that have a role; "": none.
struct TokenRoles {
  std::string bos = {};  ///< Added before every text.
  std::string eos = {};  ///< Added after every text.
  std::string unk = {};  ///< The token of what is not in the vocabulary. A byte-level tokenizer has none.
};

/// A byte-level BPE. `pattern` splits text into words; "": GPT-2's pattern. Here and below, throws BadInput if a role
/// is given to a text that is not a special token.
std::string bpe_json(const TrainedBpe& bpe, const std::string& pattern, const TokenRoles& roles = {});

/// The WordPiece tokenizer of pieces with the prefix "##", split and decoded like BERT's, with `roles.unk`.
std::string wordpiece_json(const TrainedBpe& bpe, const TokenRoles& roles);

/// What wordpiece_json() does with a text before it is divided into pieces: "normalizer" and "pre_tokenizer" of the
/// file.
Json wordpiece_normalizer();
Json wordpiece_pre_tokenizer();

/// Every word between white space is a token, `roles.unk` if it is not one of `words`. The special tokens have the
/// first ids.
std::string words_json(const std::vector<std::string>& words, const std::vector<std::string>& specials,
                       const TokenRoles& roles);
Json words_pre_tokenizer();

/// Every character is a token, with its index in `characters` as its id, plus the number of special tokens if they come
/// first. A text's other characters become `roles.unk`, or are dropped. (nanoGPT's shakespeare_char uses the characters
/// of the corpus in ascending order.) Here and below, throws BadInput for special tokens that are empty, not UTF-8,
/// repeated or equal to another token.
std::string characters_json(const std::vector<std::uint32_t>& characters, const std::vector<std::string>& specials,
                            const TokenRoles& roles = {}, bool specials_first = false);

/// Every byte is a token whose id is its value; `specials` follow from 256.
std::string bytes_json(const std::vector<std::string>& specials, const TokenRoles& roles = {});

}  // namespace vitrine
