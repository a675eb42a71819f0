#include "hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/error.h"

namespace vitrine {

Digest::Digest(const char* algorithm) : context_(::EVP_MD_CTX_new(), ::EVP_MD_CTX_free) {
  const EVP_MD* const kind = ::EVP_get_digestbyname(algorithm);
  if (context_ == nullptr || kind == nullptr || ::EVP_DigestInit_ex(context_.get(), kind, nullptr) != 1) {
    throw Unsupported("libcrypto", "{} is not available", algorithm);
  }
}

Digest Digest::sha256() { return Digest("SHA256"); }

Digest Digest::git_blob(std::int64_t size) {
  Digest digest("SHA1");
  const std::string head = fmt::format("blob {}", size);
  digest.update(std::as_bytes(std::span(head.c_str(), head.size() + 1)));
  return digest;
}

Digest Digest::of_etag(const std::string& etag, std::int64_t size) {
  return etag.size() == 64 ? sha256() : git_blob(size);
}

void Digest::update(std::span<const std::byte> bytes) {
  if (::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) {
    throw InternalError("libcrypto", "a hash cannot be continued");
  }
}

std::string Digest::finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (::EVP_DigestFinal_ex(context_.get(), bytes, &size) != 1) {
    throw InternalError("libcrypto", "a hash cannot be finished");
  }
  std::string digits;
  for (unsigned int i = 0; i < size; ++i) digits += fmt::format("{:02x}", bytes[i]);
  return digits;
}

}  // namespace vitrine
