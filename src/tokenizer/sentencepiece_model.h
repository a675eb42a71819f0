// A SentencePiece `.model`: the protocol buffer, read and checked by ourselves.
//
// The file is a ModelProto (google/sentencepiece, sentencepiece_model.proto): pieces (1), trainer_spec (2),
// normalizer_spec (3), self_test_data (4), denormalizer_spec (5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/charsmap.h"

namespace vitrine {

/// Numbered as in the file, and as in GGUF's tokenizer.ggml.token_type.
enum class PieceType : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

struct VocabularyPiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

/// What of the file decides ids and text.
struct SentencePieceModel {
  enum class Kind { unigram = 1, bpe = 2, word = 3, character = 4 };

  Kind kind = Kind::unigram;
  std::vector<VocabularyPiece> pieces;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  Charsmap charsmap;
  std::string unk_surface = " \xE2\x81\x87 ";  ///< What the unknown piece decodes to.
  std::int32_t unk = 0;
  std::optional<std::int32_t> bos, eos;  ///< The control pieces of these names, as SentencePiece finds them.
};

/// Vocabularies are held to these limits; the largest in use have 262,144 pieces, the longest 93 bytes.
inline constexpr std::size_t kMaxPieces = std::size_t{1} << 19;
inline constexpr std::size_t kMaxPieceBytes = 4096;
inline constexpr std::size_t kMaxVocabularyBytes = std::size_t{8} << 20;  ///< Of all pieces; in use: 2 MB.

/// The byte that a piece `<0x0A>` stands for.
std::optional<unsigned char> byte_of_piece(std::string_view piece);

/// Reads a `.model`; nothing of `file` is kept. `path` names it in errors. Throws BadCheckpoint on anything malformed,
/// Unsupported on a denormalizer and on models of words and characters.
SentencePieceModel parse_sentencepiece_model(std::span<const std::byte> file, std::string_view path);

}  // namespace vitrine
