#include "tokenizer/fingerprint.h"

#include <string_view>

namespace vitrine {

std::uint64_t tokenizer_fingerprint(const Tokenizer& tokenizer) {
  std::uint64_t state = 0xCBF29CE484222325;
  const auto fold = [&](std::uint64_t byte) { state = (state ^ byte) * 0x100000001B3; };
  const auto fold_number = [&](std::uint64_t number) {
    for (int i = 0; i < 8; ++i) fold(number >> (8 * i) & 0xFF);
  };
  fold_number(static_cast<std::uint64_t>(tokenizer.vocab_size()));
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string piece = tokenizer.piece(static_cast<std::int32_t>(id));
    fold_number(piece.size());
    for (const char c : piece) fold(static_cast<unsigned char>(c));
  }
  constexpr std::string_view kText =
      "The quick brown fox, isn't it?  12345 = 3.14;\n\n\tfor (int i = 0; i < N; ++i) {}\r\n Straße, 東京, "
      "e\u0301\u00e9 😀 "
      "  ABC abc\n";
  for (const std::int32_t id : tokenizer.encode(kText, SpecialTokens::none)) {
    fold_number(static_cast<std::uint64_t>(id));
  }
  return state;
}

}  // namespace vitrine
