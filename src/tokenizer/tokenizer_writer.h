// Writing tokenizer.json: tokenizers that were trained here, as this library and Hugging Face's `tokenizers` read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/bpe_trainer.h"

namespace vitrine {

/// A byte-level BPE. `pattern` cuts text into words; "": GPT-2's, which ByteLevel has within it. `bos`: the special
/// token that every text begins with, "" for none; throws BadInput where it is no special token, here and below.
std::string bpe_json(const TrainedBpe& bpe, const std::string& pattern, const std::string& bos = "");

/// Every character is a token, by its place in `characters`; `specials` follow. Characters that are not in the list
/// vanish when a text is encoded. (nanoGPT's shakespeare_char: the characters of the corpus in order.) Throws BadInput
/// for special tokens that are no texts or stand twice, here and below.
std::string characters_json(const std::vector<std::uint32_t>& characters, const std::vector<std::string>& specials,
                            const std::string& bos = "");

/// Every byte is a token, its value the id; `specials` follow from 256.
std::string bytes_json(const std::vector<std::string>& specials, const std::string& bos = "");

}  // namespace vitrine
