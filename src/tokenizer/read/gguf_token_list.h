// The parts of a GGUF file's tokenizer keys that all kinds share: lists of tokens, and ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/gguf_writer.h"
#include "tokenizer/read/sentencepiece_model.h"

namespace vitrine {

/// Throws Unsupported: a tokenizer with this cannot be written to GGUF.
[[noreturn]] void refuse_tokenizer(std::string_view path, std::string_view what);

/// A token without a text, [PAD7].
VocabularyPiece padding_token(std::size_t id, float score);

/// Adds the lists of tokens, padded to `vocab_size`. Throws BadCheckpoint if there are more tokens.
void add_gguf_tokens(std::vector<VocabularyPiece> tokens, bool with_scores, std::int64_t vocab_size,
                     std::string_view path, GgufKeys& keys);

/// Adds an id, if there is one.
void add_gguf_id(GgufKeys& keys, const char* key, std::optional<std::int32_t> id);

}  // namespace vitrine
