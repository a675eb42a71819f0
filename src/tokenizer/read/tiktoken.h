// A file of tiktoken ranks, such as Llama 3's tokenizer.model and OpenAI's *.tiktoken: a line `base64 rank` for each
// piece.
//
// The file contains neither the pattern that splits text into words nor special tokens. The pattern of a published file
// follows from its number of ranks. No special tokens are added or recognized.
// Source: openai/tiktoken, load.py and src/lib.rs.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Parses the contents of a file, which are not referenced afterwards. `pattern` is a regex in tiktoken's syntax. If it
/// is empty, the published one is used: that of cl100k_base for 100,256 ranks, that of Llama 3 for 128,000. Throws
/// BadCheckpoint if the file is malformed, BadInput if a pattern is required.
std::unique_ptr<const Tokenizer> parse_tiktoken(std::string_view file, std::string_view pattern, std::string_view path);

/// The pieces of such a file by their ranks, of which every byte has one. Throws BadCheckpoint if it is malformed.
PieceTable parse_ranks(std::string_view file, std::string_view path);

}  // namespace vitrine
