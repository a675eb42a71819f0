// The byte-level BPE of a tokenizer.json as keys of a GGUF file.
#pragma once

#include <string_view>

#include "tokenizer/gguf_token_list.h"

namespace vitrine {

/// Throws Unsupported, by name, for a construct that GGUF cannot say or that is not byte-level BPE. A normalizer NFC is
/// left out, as llama.cpp's conversion leaves it out: its engine knows none.
GgufKeys gguf_bpe_keys(std::string_view text, std::string_view path, const GgufTokenizerNeeds& needs);

}  // namespace vitrine
