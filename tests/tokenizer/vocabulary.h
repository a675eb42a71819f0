// Builds llama2.c tokenizer files for tests.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vitrine {

using Entry = std::pair<std::string, float>;  // piece, score

/// The control tokens, the bytes, then `pieces`.
inline std::vector<Entry> with_bytes(const std::vector<Entry>& pieces) {
  std::vector<Entry> entries = {{"<unk>", 0.0F}, {"\n<s>\n", 0.0F}, {"\n</s>\n", 0.0F}};
  for (int byte = 0; byte < 256; ++byte) entries.emplace_back(fmt::format("<0x{:02X}>", byte), 0.0F);
  entries.insert(entries.end(), pieces.begin(), pieces.end());
  return entries;
}

template <class T>
void append_number(std::string& file, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  file.append(bytes, sizeof(T));
}

inline std::string llama2c_file(const std::vector<Entry>& entries, std::int32_t max_token_length = 64) {
  std::string file;
  append_number(file, max_token_length);
  for (const auto& [piece, score] : entries) {
    append_number(file, score);
    append_number(file, static_cast<std::int32_t>(piece.size()));
    file += piece;
  }
  return file;
}

inline std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace vitrine
