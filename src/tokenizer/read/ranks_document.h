// Byte-level BPE by ranks with special tokens, as the tokenizer.json that transformers makes of it: Mistral's
// tekken.json, and Kimi's tiktoken.model. Sources: mistralai/mistral-common, tokens/tokenizers/tekken.py;
// moonshotai/Kimi-K2-Instruct, tokenization_kimi.py; transformers, convert_slow_tokenizer.py (TikTokenConverter).
#pragma once

#include <string_view>

#include "base/json.h"
#include "tokenizer/read/tokenizer_document.h"

namespace vitrine {

/// Reads a tekken.json: its special tokens come first, then the pieces of its vocabulary up to default_vocab_size.
/// Throws BadCheckpoint if it is malformed.
TokenizerDocument parse_tekken(std::string_view file, std::string_view path);

/// Reads the ranks of a tiktoken.model, and the special tokens after them, which `config`, the folder's
/// tokenizer_config.json, names; the others of 256 are <|reserved_token_ID|>. Throws BadCheckpoint if a file is
/// malformed.
TokenizerDocument parse_kimi(std::string_view ranks, std::string_view path, const Json& config,
                             std::string_view config_path);

}  // namespace vitrine
