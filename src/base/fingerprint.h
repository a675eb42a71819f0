// A number that tells whether bytes are the same, such as those of a file on two machines. Not against malice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace vitrine {

/// Bytes are mixed eight at a time, as in the finalizer of MurmurHash3.
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes) {
    mix(bytes.size());
    std::size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, 8);
      mix(word);
    }
    std::uint64_t rest = 0;
    if (at < bytes.size()) std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
    mix(rest);
  }
  std::uint64_t value() const { return value_; }

 private:
  void mix(std::uint64_t word) {
    value_ = (value_ ^ word) * 0xFF51AFD7ED558CCDULL;
    value_ ^= value_ >> 33;
  }

  std::uint64_t value_ = 0x9E3779B97F4A7C15ULL;
};

}  // namespace vitrine
