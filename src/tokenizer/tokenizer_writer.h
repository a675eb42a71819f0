// Writes trained tokenizers as tokenizer.json, which vitrine and Hugging Face's `tokenizers` read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/bpe_trainer.h"

namespace vitrine {

/// A byte-level BPE. `pattern` splits text into words; "": GPT-2's pattern. `bos` is the special token that is added
/// before every text, or "". Here and below, throws BadInput if `bos` is not a special token.
std::string bpe_json(const TrainedBpe& bpe, const std::string& pattern, const std::string& bos = "");

/// Every character is a token whose id is its index in `characters`; `specials` follow. Other characters are dropped
/// when a text is encoded. (nanoGPT's shakespeare_char uses the characters of the corpus in ascending order.) Here and
/// below, throws BadInput for special tokens that are empty, not UTF-8, repeated or equal to another token.
std::string characters_json(const std::vector<std::uint32_t>& characters, const std::vector<std::string>& specials,
                            const std::string& bos = "");

/// Every byte is a token whose id is its value; `specials` follow from 256.
std::string bytes_json(const std::vector<std::string>& specials, const std::string& bos = "");

}  // namespace vitrine
