// The tokenizer inside a GGUF file: keys tokenizer.ggml.*, with the meaning that llama.cpp gives them.
//
// `tokenizer.ggml.model` says the kind: "llama" (SentencePiece's BPE, also for unigram models) and "gpt2" (byte-level
// BPE, cut into words as `tokenizer.ggml.pre` says) are read; others are refused by name. Where llama.cpp falls back to
// its default pre-tokenizer because the file does not name one, this refuses too: the ids would be wrong.
// Source: ggml-org/llama.cpp, src/llama-vocab.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/gguf.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// What both kinds have.
struct GgufVocabulary {
  struct Piece : VocabularyPiece {
    bool strip_left = false;   ///< Whitespace before it belongs to it where it is recognized in a text,
    bool strip_right = false;  ///< whitespace behind it too.
  };
  std::vector<Piece> pieces;
  std::string pre;  ///< tokenizer.ggml.pre
  std::optional<std::int32_t> bos, eos, unk;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
  std::vector<std::int32_t> stop_ids;  ///< Ascending.
};

/// Reads the tokenizer of a GGUF file. Throws BadInput where it holds none, BadCheckpoint where it is malformed,
/// Unsupported, by name, for kinds and pre-tokenizers that are not known.
std::unique_ptr<const Tokenizer> make_gguf_tokenizer(const GgufMetadata& metadata);

/// The two kinds; `merges` are pairs of pieces as the file spells them.
std::unique_ptr<const Tokenizer> make_gguf_spm_tokenizer(GgufVocabulary vocabulary, std::string_view path);
std::unique_ptr<const Tokenizer> make_gguf_bpe_tokenizer(GgufVocabulary vocabulary,
                                                         const std::vector<std::string_view>& merges,
                                                         std::string_view path);

}  // namespace vitrine
