// Reads a SentencePiece `.model` without a library for protocol buffers.
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

#include "tokenizer/read/charsmap.h"

namespace vitrine {

/// The numbers are those of the file and of GGUF's tokenizer.ggml.token_type.
enum class PieceType : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

struct VocabularyPiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;

  /// Whether the piece is not text: a control piece or the unknown piece.
  bool is_control() const { return type == PieceType::control || type == PieceType::unknown; }
};

/// The fields of the file that determine ids and text.
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
  std::string charsmap_base64;                 ///< The same, as in the normalizer Precompiled of a tokenizer.json.
  std::string unk_surface = " \xE2\x81\x87 ";  ///< The text of the unknown piece when it is decoded.
  std::int32_t unk = 0;
  std::optional<std::int32_t> bos, eos;  ///< The control pieces with the names in the trainer_spec.
};

/// Limits of vocabularies. The largest published ones have 262,144 pieces; the longest piece has 93 bytes.
inline constexpr std::size_t kMaxPieces = std::size_t{1} << 19;
inline constexpr std::size_t kMaxPieceBytes = 4096;
inline constexpr std::size_t kMaxVocabularyBytes = std::size_t{8} << 20;  ///< Of all pieces; published ones have 2 MB.

/// The byte that a piece such as `<0x0A>` represents.
std::optional<unsigned char> byte_of_piece(std::string_view piece);

/// Parses the contents of a `.model`, which are not referenced afterwards. `path` names the file in errors. Throws
/// BadCheckpoint if the file is malformed, Unsupported for a denormalizer and for models of words or characters.
SentencePieceModel parse_sentencepiece_model(std::span<const std::byte> file, std::string_view path);

}  // namespace vitrine
