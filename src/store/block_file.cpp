#include "store/block_file.h"

#include <algorithm>
#include <cstring>

namespace vitrine {
namespace {

constexpr char kMagic[] = {'V', 'I', 'T', 'B', 'L', 'K', '0', '1'};
constexpr std::size_t kName = sizeof kMagic, kSum = kName + sizeof(BlockName), kSize = kSum + sizeof(Sha256);
static_assert(kSize + sizeof(std::uint64_t) == sizeof(BlockHeader));

}  // namespace

BlockHeader header_of(const BlockName& name, std::span<const std::byte> content) {
  BlockHeader header{};
  std::memcpy(header.data(), kMagic, sizeof kMagic);
  std::copy(name.begin(), name.end(), header.begin() + kName);
  for (std::size_t i = 0; i < sizeof(std::uint64_t); ++i) {
    header[kSize + i] = static_cast<std::byte>(content.size() >> (8 * i));
  }
  Digest digest = Digest::sha256();
  digest.update(std::span(header).first(kSum));
  digest.update(std::span(header).subspan(kSize));
  digest.update(content);
  const Sha256 sum = digest.finish_sha256();
  std::copy(sum.begin(), sum.end(), header.begin() + kSum);
  return header;
}

bool is_block(const BlockName& name, const BlockHeader& header, std::span<const std::byte> content) {
  return header == header_of(name, content);
}

}  // namespace vitrine
