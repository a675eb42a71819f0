// Counter-based random numbers: each is a pure function of a key and a counter, so that it does not depend on how the
// work is divided.
#pragma once

#include <array>
#include <cstdint>

namespace vitrine {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): 128 random bits.
inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// A number in [0, 1) with 53 random bits: draw `step` of sequence `sequence` for `seed`; of two independent streams.
inline double uniform(std::uint64_t seed, std::uint64_t sequence, std::uint64_t step, int stream = 0) {
  const auto bits = philox({static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32),
                            static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(sequence >> 32)},
                           {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const std::size_t first = stream == 0 ? 0 : 2;
  const std::uint64_t wide = (std::uint64_t{bits[first]} << 32) | bits[first + 1];
  return static_cast<double>(wide >> 11) * 0x1p-53;
}

}  // namespace vitrine
