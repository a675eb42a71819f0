// Converts a tokenizer to the keys tokenizer.ggml.* of a GGUF file, as llama.cpp's conversion scripts write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/gguf_writer.h"

namespace vitrine {

/// Properties of the model to whose file the tokenizer is written.
struct GgufTokenizerNeeds {
  std::int64_t vocab_size = 0;         ///< llama.cpp requires one token for each row of the embedding.
  std::optional<std::int32_t> bos;     ///< Of the checkpoint; used if the file of the tokenizer names none.
  std::vector<std::int32_t> stop_ids;  ///< Of the checkpoint.
  /// A BPE with byte tokens is written with its merges (kind "gemma4"), not with scores (kind "llama"): the kind that
  /// llama.cpp expects of the model's architecture.
  bool keeps_merges = false;
  std::int64_t n_types = 0;  ///< Of the model's tokens (segments).
};

/// The keys of the tokenizer at `path`, and of the chat templates if it is a folder. `path` is a file, or a folder with
/// a tokenizer.model or, otherwise, a tokenizer.json. Pads the tokenizer with unused tokens to the size of the model's
/// vocabulary. Supports SentencePiece BPE, GGUF files, WordPiece and Unigram (gguf_document.h), and byte-level BPE of a
/// tokenizer.json whose pre-tokenizer has a name in GGUF; the normalizer NFC is omitted, as in llama.cpp's conversion,
/// because llama.cpp has no normalizers. Throws Unsupported for other tokenizers, BadInput if there is none,
/// BadCheckpoint if it is malformed or larger than the model's vocabulary.
GgufKeys gguf_tokenizer_keys(const std::string& path, const GgufTokenizerNeeds& needs);

/// The keys of a file without a tokenizer: the chat templates at `path`, if it has any.
GgufKeys no_gguf_tokenizer(const std::string& path);

}  // namespace vitrine
