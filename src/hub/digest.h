// The hashes by which a hub names contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace vitrine {

/// A hash of bytes that arrive in pieces, in order.
class Digest {
 public:
  static Digest sha256();
  /// Git's name of a file: the SHA-1 of `blob SIZE\0` and the content.
  static Digest git_blob(std::int64_t size);
  /// The one that an etag of this many digits has: 64 are a SHA-256, others a name of Git.
  static Digest of_etag(const std::string& etag, std::int64_t size);

  void update(std::span<const std::byte> bytes);
  /// In lower-case hexadecimal digits. The digest has no other use afterwards.
  std::string finish();

 private:
  explicit Digest(const char* algorithm);

  std::shared_ptr<evp_md_ctx_st> context_;
};

}  // namespace vitrine
