#include "tokenizer/read/sentencepiece_model.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/read/base64.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{32} << 20;  // the largest published files have 5 MB

/// A field of a message in the wire format of protocol buffers.
struct Field {
  std::uint32_t number = 0;
  std::uint32_t wire = 0;     // 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes
  std::uint64_t integer = 0;  // wire 0 and 5
  std::string_view bytes;     // wire 2
};

/// Reads fields from the front of a message. Every length is checked against the rest of the message.
class Message {
 public:
  Message(std::string_view rest, std::string_view path) : rest_(rest), path_(path) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF) bad("a field number from 1 to 2^29 - 1", key >> 3);
    field = {static_cast<std::uint32_t>(key >> 3), static_cast<std::uint32_t>(key & 7), 0, {}};
    if (field.wire == 0) {
      field.integer = varint();
    } else if (field.wire == 1) {
      take(8);
    } else if (field.wire == 2) {
      field.bytes = take(varint());
    } else if (field.wire == 5) {
      const std::string_view four = take(4);
      for (int i = 3; i >= 0; --i) {
        field.integer = field.integer << 8 | static_cast<unsigned char>(four[static_cast<std::size_t>(i)]);
      }
    } else {
      bad("a wire type 0, 1, 2 or 5", field.wire);
    }
    return true;
  }

  /// Throws unless `field` has the wire type `wire`.
  void expect(const Field& field, std::uint32_t wire, const char* name) const {
    if (field.wire == wire) return;
    throw BadCheckpoint(path_, "expected wire type {} for {} of the SentencePiece model, got {}", wire, name,
                        field.wire);
  }
  bool boolean(const Field& field, const char* name) const {
    expect(field, 0, name);
    return field.integer != 0;
  }
  float real(const Field& field, const char* name) const {
    expect(field, 5, name);
    return std::bit_cast<float>(static_cast<std::uint32_t>(field.integer));
  }
  std::string_view string(const Field& field, const char* name) const {
    expect(field, 2, name);
    return field.bytes;
  }

 private:
  [[noreturn]] void bad(const char* expected, std::uint64_t got) const {
    throw BadCheckpoint(path_, "expected {} in the SentencePiece model, got {}", expected, got);
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    throw BadCheckpoint(path_, "expected a varint in the SentencePiece model, got one without an end");
  }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) {
      throw BadCheckpoint(path_, "expected {} bytes in the SentencePiece model, got {}: the file is truncated", size,
                          rest_.size());
    }
    const std::string_view front = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(static_cast<std::size_t>(size));
    return front;
  }

  std::string_view rest_;
  std::string_view path_;
};

VocabularyPiece read_piece(std::string_view bytes, std::size_t id, std::string_view path) {
  VocabularyPiece piece;
  Message message(bytes, path);
  for (Field field; message.next(field);) {
    if (field.number == 1) piece.text = message.string(field, "a piece's text");
    if (field.number == 2) piece.score = message.real(field, "a piece's score");
    if (field.number == 3) {
      message.expect(field, 0, "a piece's type");
      if (field.integer < 1 || field.integer > 6) {
        throw BadCheckpoint(path, "expected a type from 1 to 6 for piece {}, got {}", id, field.integer);
      }
      piece.type = static_cast<PieceType>(field.integer);
    }
  }
  if (piece.text.empty() || piece.text.size() > kMaxPieceBytes) {
    throw BadCheckpoint(path, "expected 1 to {} bytes for piece {}, got {}", kMaxPieceBytes, id, piece.text.size());
  }
  if (!is_valid_utf8(piece.text)) throw BadCheckpoint(path, "expected UTF-8 for piece {}, got other bytes", id);
  if (!std::isfinite(piece.score)) throw BadCheckpoint(path, "expected a finite score for piece {}", id);
  return piece;
}

/// The texts of the pieces that are BOS and EOS.
struct Names {
  std::string bos = "<s>", eos = "</s>";
};

void read_trainer_spec(std::string_view bytes, std::string_view path, SentencePieceModel& model, Names& names) {
  Message message(bytes, path);
  for (Field field; message.next(field);) {  // other fields are parameters of the training
    if (field.number == 3) {
      message.expect(field, 0, "model_type");
      if (field.integer < 1 || field.integer > 4) {
        throw BadCheckpoint(path, "expected a model_type from 1 to 4, got {}", field.integer);
      }
      model.kind = static_cast<SentencePieceModel::Kind>(field.integer);
    }
    if (field.number == 24) model.whitespace_as_suffix = message.boolean(field, "treat_whitespace_as_suffix");
    if (field.number == 35) model.byte_fallback = message.boolean(field, "byte_fallback");
    if (field.number == 44) model.unk_surface = message.string(field, "unk_surface");
    if (field.number == 46) names.bos = message.string(field, "bos_piece");
    if (field.number == 47) names.eos = message.string(field, "eos_piece");
  }
  if (model.unk_surface.size() > kMaxPieceBytes) {
    throw BadCheckpoint(path, "expected at most {} bytes of unk_surface, got {}", kMaxPieceBytes,
                        model.unk_surface.size());
  }
}

void read_normalizer_spec(std::string_view bytes, std::string_view path, SentencePieceModel& model) {
  Message message(bytes, path);
  std::string_view charsmap;
  for (Field field; message.next(field);) {  // other fields are the name and the source of the character map
    if (field.number == 2) charsmap = message.string(field, "precompiled_charsmap");
    if (field.number == 3) model.add_dummy_prefix = message.boolean(field, "add_dummy_prefix");
    if (field.number == 4) model.remove_extra_whitespaces = message.boolean(field, "remove_extra_whitespaces");
    if (field.number == 5) model.escape_whitespaces = message.boolean(field, "escape_whitespaces");
  }
  model.charsmap = Charsmap::parse(charsmap, path);
  model.charsmap_base64 = encode_base64({reinterpret_cast<const unsigned char*>(charsmap.data()), charsmap.size()});
}

void refuse_denormalizer(std::string_view bytes, std::string_view path) {
  Message message(bytes, path);
  for (Field field; message.next(field);) {
    if (field.number == 2 && !message.string(field, "precompiled_charsmap").empty()) {
      throw Unsupported(path, "a SentencePiece model with a denormalizer is not supported");
    }
  }
}

/// Checks what SentencePiece checks when it loads a model: no text appears twice among the pieces of text or twice
/// among the reserved ones; there is one unknown piece; there are byte pieces if and only if there is byte fallback.
void check_pieces(SentencePieceModel& model, const Names& names, std::string_view path) {
  PieceTable text, reserved;
  std::size_t n_text_bytes = 0;
  bool has_unknown = false;
  std::size_t n_bytes = 0;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const VocabularyPiece& piece = model.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    const bool is_reserved = piece.is_control() || piece.type == PieceType::byte;
    PieceTable& table = is_reserved ? reserved : text;
    if (!table.add(piece.text, id)) {
      throw BadCheckpoint(path, "pieces {} and {} have the same text", table.find(piece.text), id);
    }
    n_text_bytes += piece.text.size();
    if (piece.type == PieceType::unknown) {
      if (has_unknown) throw BadCheckpoint(path, "expected one unknown piece, got {} and {}", model.unk, id);
      has_unknown = true;
      model.unk = id;
    }
    if (piece.type == PieceType::byte) {
      if (!byte_of_piece(piece.text)) {
        throw BadCheckpoint(path, "expected <0x00> to <0xFF> for the byte piece {}, got another text", id);
      }
      ++n_bytes;
    }
  }
  if (n_text_bytes > kMaxVocabularyBytes) {
    throw BadCheckpoint(path, "expected at most {} bytes of pieces, got {}", kMaxVocabularyBytes, n_text_bytes);
  }
  if (!has_unknown) throw BadCheckpoint(path, "expected an unknown piece, got none");
  if (n_bytes != (model.byte_fallback ? 256U : 0U)) {
    throw BadCheckpoint(path, "expected {} byte pieces (byte_fallback is {}), got {}", model.byte_fallback ? 256 : 0,
                        model.byte_fallback, n_bytes);
  }
  const auto control = [&](const std::string& name) -> std::optional<std::int32_t> {
    const std::int32_t id = reserved.find(name);
    if (id == kNoId || model.pieces[static_cast<std::size_t>(id)].type != PieceType::control) return std::nullopt;
    return id;
  };
  model.bos = control(names.bos);
  model.eos = control(names.eos);
}

}  // namespace

std::optional<unsigned char> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x")) return std::nullopt;
  unsigned char byte = 0;
  std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  if (piece != fmt::format("<0x{:02X}>", byte)) return std::nullopt;
  return byte;
}

SentencePieceModel parse_sentencepiece_model(std::span<const std::byte> file, std::string_view path) {
  if (file.size() > kMaxFileBytes) {
    throw BadCheckpoint(path, "expected a SentencePiece model of at most {} bytes, got {}", kMaxFileBytes, file.size());
  }
  SentencePieceModel model;
  Names names;
  Message message({reinterpret_cast<const char*>(file.data()), file.size()}, path);
  for (Field field; message.next(field);) {
    if (field.number == 1) {
      if (model.pieces.size() == kMaxPieces) throw BadCheckpoint(path, "expected at most {} pieces", kMaxPieces);
      model.pieces.push_back(read_piece(message.string(field, "pieces"), model.pieces.size(), path));
    }
    if (field.number == 2) read_trainer_spec(message.string(field, "trainer_spec"), path, model, names);
    if (field.number == 3) read_normalizer_spec(message.string(field, "normalizer_spec"), path, model);
    if (field.number == 5) refuse_denormalizer(message.string(field, "denormalizer_spec"), path);
  }
  if (model.kind != SentencePieceModel::Kind::unigram && model.kind != SentencePieceModel::Kind::bpe) {
    throw Unsupported(path, "a SentencePiece model of {} is not supported",
                      model.kind == SentencePieceModel::Kind::word ? "words" : "characters");
  }
  check_pieces(model, names, path);
  return model;
}

}  // namespace vitrine
