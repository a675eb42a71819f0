#include "base/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>

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

void Digest::update(std::span<const std::byte> bytes) {
  if (::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) {
    throw InternalError("libcrypto", "a hash cannot be continued");
  }
}

void Digest::update(std::uint64_t number) {
  std::array<std::byte, sizeof number> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  update(bytes);
}

void Digest::update_text(std::string_view text) {
  update(std::uint64_t{text.size()});
  update(std::as_bytes(std::span(text)));
}

std::size_t Digest::finish_into(std::span<std::byte> bytes) {
  unsigned int size = 0;
  if (::EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(bytes.data()), &size) != 1) {
    throw InternalError("libcrypto", "a hash cannot be finished");
  }
  return size;
}

std::string Digest::finish() {
  std::array<std::byte, EVP_MAX_MD_SIZE> bytes{};
  return hex_of(std::span(bytes).first(finish_into(bytes)));
}

Sha256 Digest::finish_sha256() {
  std::array<std::byte, EVP_MAX_MD_SIZE> bytes{};
  Sha256 result{};
  if (finish_into(bytes) != result.size()) throw InternalError("libcrypto", "expected a SHA-256");
  std::copy_n(bytes.begin(), result.size(), result.begin());
  return result;
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string digits;
  for (const std::byte byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return digits;
}

}  // namespace vitrine
