// Converts a tokenizer to the keys tokenizer.ggml.* of a GGUF file, as llama.cpp's conversion scripts write them.
#pragma once

#include <string>

#include "tokenizer/gguf_token_list.h"

namespace vitrine {

/// The keys of the tokenizer at `path`, which is a file or a folder with a tokenizer.model or, otherwise, a
/// tokenizer.json. Pads it with unused tokens to the size of the model's vocabulary. Supports SentencePiece BPE, GGUF
/// files, and byte-level BPE of a tokenizer.json whose pre-tokenizer has a name in GGUF. Throws Unsupported for other
/// tokenizers, BadInput if there is none, BadCheckpoint if it is malformed or larger than the model's vocabulary.
GgufKeys gguf_tokenizer_keys(const std::string& path, const GgufTokenizerNeeds& needs);

/// The keys of a file without a tokenizer.
GgufKeys no_gguf_tokenizer();

}  // namespace vitrine
