// The tokenizer of a GGUF file: the keys tokenizer.ggml.*, interpreted as in llama.cpp.
//
// `tokenizer.ggml.model` is the kind. WordPiece ("bert") and Unigram ("t5") are in gguf_document.h. The other kinds are
// "llama" (SentencePiece's BPE, used for unigram models, too), "gpt2" (byte-level BPE with the pre-tokenizer
// `tokenizer.ggml.pre`) and "gemma4" (BPE of characters, with spaces as ▁ and byte tokens for unknown characters). If
// the file names no pre-tokenizer, llama.cpp falls back to a default one; vitrine rejects the file, because the ids
// would be wrong. Source: ggml-org/llama.cpp, src/llama-vocab.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf.h"
#include "tokenizer/read/sentencepiece_model.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// Keys of vitrine's own, for rules that llama.cpp has no keys for and ignores: how a text of the kind "llama" begins
/// ("first" or "always": Metaspace's prepend_scheme), tokens that take the white space before or after them, and the
/// ids that end a text if there are more than three.
inline constexpr const char* kGgufPrependScheme = "tokenizer.vitrine.prepend_scheme";
inline constexpr const char* kGgufStripLeft = "tokenizer.vitrine.strip_left_ids";
inline constexpr const char* kGgufStripRight = "tokenizer.vitrine.strip_right_ids";
inline constexpr const char* kGgufStopIds = "tokenizer.vitrine.stop_token_ids";
/// Of the kinds "bert" and "t5": special tokens that are searched for in the normalized text.
inline constexpr const char* kGgufNormalized = "tokenizer.vitrine.normalized_ids";

/// How many types (segments) the tokens of the model may have.
inline constexpr const char* kGgufTypeCount = "tokenizer.ggml.token_type_count";

/// The common part of all kinds.
struct GgufVocabulary {
  struct Piece : VocabularyPiece {
    bool strip_left = false;   ///< Whether a match in a text includes the white space before it.
    bool strip_right = false;  ///< The same for the white space after it.
  };
  std::vector<Piece> pieces;
  std::string pre;  ///< tokenizer.ggml.pre
  std::optional<std::int32_t> bos, eos, unk, sep;
  bool add_bos = false;
  bool add_eos = false;
  bool add_sep = false;  ///< After the first text of a pair, and after EOS.
  bool add_space_prefix = false;
  bool prefix_unless_space = false;    ///< A text that starts with a space gets no other.
  bool prefix_once = false;            ///< Only the beginning of the whole text gets a space.
  std::vector<std::int32_t> stop_ids;  ///< Ascending.
  FimTokens fim;
};

/// The id of a special token, of any integer type. An id that is not one of the `n_tokens` is ignored, as in llama.cpp.
std::optional<std::int32_t> gguf_special_id(const GgufMetadata& metadata, std::string_view key, std::size_t n_tokens);
/// A line for each id of a special token that is ignored.
std::vector<std::string> gguf_ignored_ids(const GgufMetadata& metadata, std::size_t n_tokens);

/// The tokens. Throws BadCheckpoint if there are none, or lists of different lengths.
std::vector<GgufVocabulary::Piece> read_gguf_pieces(const GgufMetadata& metadata);
/// The ids of one of vitrine's own keys. Throws BadCheckpoint for an id that is not one of the `n_tokens`.
std::vector<std::size_t> own_gguf_ids(const GgufMetadata& metadata, const char* key, std::size_t n_tokens);

/// Reads the tokenizer of a GGUF file. Throws BadInput if it has none, BadCheckpoint if it is malformed, Unsupported
/// for unknown kinds and pre-tokenizers.
std::unique_ptr<const Tokenizer> make_gguf_tokenizer(const GgufMetadata& metadata);

/// The constructors of the kinds. Each of the `merges` is "left right".
std::unique_ptr<const Tokenizer> make_gguf_spm_tokenizer(GgufVocabulary vocabulary, std::string_view path);
std::unique_ptr<const Tokenizer> make_gguf_bpe_tokenizer(GgufVocabulary vocabulary,
                                                         const std::vector<std::string_view>& merges,
                                                         std::string_view path);
std::unique_ptr<const Tokenizer> make_gguf_character_bpe_tokenizer(GgufVocabulary vocabulary,
                                                                   const std::vector<std::string_view>& merges,
                                                                   std::string_view path);

}  // namespace vitrine
