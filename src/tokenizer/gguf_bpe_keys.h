// Converts the byte-level BPE of a tokenizer.json to keys of a GGUF file.
#pragma once

#include <string_view>

#include "tokenizer/gguf_token_list.h"

namespace vitrine {

/// Throws Unsupported for anything that GGUF cannot represent; the message names it. The normalizer NFC is omitted, as
/// in llama.cpp's conversion, because llama.cpp has no normalizers.
GgufKeys gguf_bpe_keys(std::string_view text, std::string_view path, const GgufTokenizerNeeds& needs);

}  // namespace vitrine
