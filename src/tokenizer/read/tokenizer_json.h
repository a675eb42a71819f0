// The tokenizer.json of Hugging Face's `tokenizers`, and its predecessor, vocab.json with merges.txt.
//
// A text passes through these stages: added tokens that are not normalized, normalizer, other added tokens,
// pre-tokenizer, model, post-processor. "truncation" and "padding" concern batches and are ignored. Byte-level models
// encode bytes that are not UTF-8; for other models each of them becomes U+FFFD.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/read/tokenizer_document.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Parses the contents of a file, which are not referenced afterwards. `path` names the file in errors. Throws
/// BadCheckpoint if the file is malformed, Unsupported for unknown components and options. `source_lang` replaces the
/// language with whose token the file marks texts; "": that one. `target` is the tokenizer of target texts; null: this
/// one.
std::unique_ptr<const Tokenizer> parse_tokenizer_json(std::string_view file, std::string_view path,
                                                      const std::string& source_lang = "",
                                                      std::unique_ptr<const Tokenizer> target = nullptr);

/// The same for a document that was read from another format.
std::unique_ptr<const Tokenizer> make_json_tokenizer(TokenizerDocument document, std::string_view path,
                                                     const std::string& source_lang = "",
                                                     std::unique_ptr<const Tokenizer> target = nullptr);

/// Reads GPT-2's pair of files: byte-level BPE with GPT-2's pattern. No special tokens are added; "<|endoftext|>" is
/// recognized if the vocabulary contains it.
TokenizerDocument parse_vocab_and_merges(std::string_view vocab, std::string_view vocab_path, std::string_view merges,
                                         std::string_view merges_path);

}  // namespace vitrine
