// A tokenizer as keys of a GGUF file: tokenizer.ggml.*, as llama.cpp's conversion scripts write them.
#pragma once

#include <string>

#include "tokenizer/gguf_token_list.h"

namespace vitrine {

/// The tokenizer at `path` (as load_tokenizer takes it; in a folder a tokenizer.model before a tokenizer.json) as keys,
/// padded with unused tokens to the size that the model needs. SentencePiece
/// BPE and the tokenizers of other GGUF files; byte-level BPE of a tokenizer.json whose words are cut in a way that has
/// a name in GGUF. Throws Unsupported for another tokenizer, BadInput where there is none, BadCheckpoint for one that
/// is malformed or larger than that.
GgufKeys gguf_tokenizer_keys(const std::string& path, const GgufTokenizerNeeds& needs);

/// What a file without a tokenizer says.
GgufKeys no_gguf_tokenizer();

}  // namespace vitrine
