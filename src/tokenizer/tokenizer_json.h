// tokenizer.json of Hugging Face's `tokenizers`, and its older form, vocab.json with merges.txt.
//
// text → added tokens cut out → normalizer → the other added tokens → pre-tokenizer → model → post-processor.
// truncation and padding are ignored: they say how batches are made, and a text is never cut silently. Bytes that are
// not UTF-8: byte-level models spell them, for others each is U+FFFD.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Nothing of `file` is kept. `path` names it in errors. Throws BadCheckpoint on anything malformed, Unsupported for
/// what is well-formed but not known here.
std::unique_ptr<const Tokenizer> parse_tokenizer_json(std::string_view file, std::string_view path);

/// GPT-2's pair of files: byte-level BPE with GPT-2's pattern. Nothing is added, and "<|endoftext|>", where the
/// vocabulary holds it, is a special token.
std::unique_ptr<const Tokenizer> parse_vocab_and_merges(std::string_view vocab, std::string_view vocab_path,
                                                        std::string_view merges, std::string_view merges_path);

}  // namespace vitrine
