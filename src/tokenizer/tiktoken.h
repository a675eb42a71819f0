// A file of tiktoken ranks: a line `base64 rank` for every piece, as Llama 3's tokenizer.model and OpenAI's *.tiktoken.
//
// The file holds neither the pattern that cuts a text into words nor special tokens. The pattern follows from the
// number of ranks where that says whose file it is; special tokens there are none: nothing is added, nothing is
// recognized. Source: openai/tiktoken, load.py and src/lib.rs.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Reads the tokenizer from the content of its file; nothing of it is kept. `pattern` is a regex of tiktoken; an empty
/// one stands for the published pattern: of cl100k_base for 100,256 ranks, of Llama 3 for 128,000. Throws BadCheckpoint
/// on a malformed file, BadInput where a pattern is needed.
std::unique_ptr<const Tokenizer> parse_tiktoken(std::string_view file, std::string_view pattern, std::string_view path);

}  // namespace vitrine
