// Cryptographic hashes: names of contents, of a hub and of the prefix store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace vitrine {

/// A SHA-256.
using Sha256 = std::array<std::byte, 32>;

/// A hash of bytes that arrive in pieces, in order.
class Digest {
 public:
  static Digest sha256();
  /// Git's name of a file: the SHA-1 of `blob SIZE\0` and the content.
  static Digest git_blob(std::int64_t size);

  void update(std::span<const std::byte> bytes);
  /// Adds a number, least significant byte first.
  void update(std::uint64_t number);
  /// Adds a text and its length, so that texts in a row have one meaning.
  void update_text(std::string_view text);
  /// In lower-case hexadecimal digits. The digest has no other use after any finish.
  std::string finish();
  /// The same as bytes, of a SHA-256.
  Sha256 finish_sha256();

 private:
  explicit Digest(const char* algorithm);
  std::size_t finish_into(std::span<std::byte> bytes);  // returns the number of bytes

  std::shared_ptr<evp_md_ctx_st> context_;
};

/// Bytes in lower-case hexadecimal digits.
std::string hex_of(std::span<const std::byte> bytes);

}  // namespace vitrine
