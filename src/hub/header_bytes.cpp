#include "hub/header_bytes.h"

#include <bit>
#include <cstring>

#include "base/exceptions.h"
#include "base/gguf.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxSafetensorsHeader = 100'000'000;  // the format's own limit
constexpr std::int64_t kMaxGgufHeader = std::int64_t{64} << 20;
constexpr std::int64_t kPiece = std::int64_t{256} << 10;

}  // namespace

std::int64_t header_bytes(std::string_view path, std::span<const std::byte> first) {
  const std::int64_t known = std::ssize(first);
  if (path.ends_with(".safetensors")) {
    std::uint64_t length = 0;
    if (first.size() < sizeof length) return sizeof length;
    std::memcpy(&length, first.data(), sizeof length);
    return length > kMaxSafetensorsHeader ? known : static_cast<std::int64_t>(sizeof length + length);
  }
  constexpr std::string_view kMagic = "GGUF";
  if (first.size() < kMagic.size()) return kPiece;
  if (std::memcmp(first.data(), kMagic.data(), kMagic.size()) != 0 || known >= kMaxGgufHeader) return known;
  try {
    GgufMetadata::parse(first, path).contents();
    return known;
  } catch (const BadCheckpoint& e) {
    const bool is_longer = std::string_view(e.what()).find("truncated") != std::string_view::npos;
    return is_longer ? known + kPiece : known;
  } catch (const Error&) {
    return known;
  }
}

}  // namespace vitrine
