// Builds SentencePiece models for tests, in the wire format of protocol buffers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::spm {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string integer(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}
inline std::string bytes(int field, std::string_view value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(value.size()) + std::string(value);
}
inline std::string real(int field, float value) {
  char four[4];
  std::memcpy(four, &value, 4);
  return varint(static_cast<std::uint64_t>(field) << 3 | 5) + std::string(four, 4);
}

enum Type { kNormal = 1, kUnknown, kControl, kUser, kUnused, kByte };

struct Piece {
  std::string text;
  float score = 0;
  int type = kNormal;
};

inline std::string piece(const Piece& p) {
  return bytes(1, bytes(1, p.text) + real(2, p.score) + integer(3, static_cast<std::uint64_t>(p.type)));
}

/// A model with <unk>, <s>, </s> and `pieces`.
struct Model {
  int kind = 2;  // 1 unigram, 2 BPE
  bool byte_fallback = false;
  bool dummy_prefix = true, remove_extra = false;
  std::vector<Piece> pieces;
  std::string charsmap;

  std::string file() const {
    std::string out = piece({"<unk>", 0, kUnknown}) + piece({"<s>", 0, kControl}) + piece({"</s>", 0, kControl});
    for (const Piece& p : pieces) out += piece(p);
    out += bytes(2, integer(3, static_cast<std::uint64_t>(kind)) + integer(35, byte_fallback));
    return out + bytes(3, bytes(1, "identity") + bytes(2, charsmap) + integer(3, dummy_prefix) +
                              integer(4, remove_extra) + integer(5, 1));
  }
};

}  // namespace vitrine::spm
