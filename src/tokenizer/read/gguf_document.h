// The kinds "bert" (WordPiece) and "t5" (Unigram) of GGUF tokenizers, as the tokenizer.json that they stand for.
//
// A file spells a WordPiece that begins a word with ▁ before it, and one that continues a word without its ##. Its
// words are those of BERT: llama.cpp has keys for lowercase letters and for accents alone. A Unigram has
// SentencePiece's normalization as the blob of its rules. Sources: ggml-org/llama.cpp, src/llama-vocab.cpp
// (llm_tokenizer_wpm, llm_tokenizer_ugm), conversion/bert.py; Hugging Face's `tokenizers`. Where the two differ, these
// ids are those of `tokenizers`: a word of more than 100 characters is unknown, and of rules that match, the shortest
// counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf.h"
#include "base/gguf_writer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/read/gguf_tokenizer_keys.h"
#include "tokenizer/read/tokenizer_document.h"

namespace vitrine {

inline constexpr const char* kGgufSeparator = "tokenizer.ggml.seperator_token_id";  // sic

/// Throws BadCheckpoint if the keys are malformed, Unsupported for rules that no tokenizer.json has.
TokenizerDocument gguf_document(const GgufMetadata& metadata);

/// A tokenizer.json, and the tokens that its folder names (unk_token), which may be none.
struct NamedDocument {
  const TokenizerDocument& document;
  std::string_view path;
  std::map<std::string, std::string> named;
};

/// What the template of a pair has between its texts, after the ids that end a text; none if there is no such template.
std::optional<std::vector<std::int32_t>> between_texts(const PostProcessor& around);

/// The keys of a WordPiece or a Unigram. Throw Unsupported for rules that llama.cpp does not have.
GgufKeys wordpiece_keys(const NamedDocument& source, const GgufTokenizerNeeds& needs);
GgufKeys unigram_keys(const NamedDocument& source, const GgufTokenizerNeeds& needs);

}  // namespace vitrine
