// Reads numbers and strings from the front of a binary file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"

namespace vitrine {

static_assert(std::endian::native == std::endian::little, "numbers are copied from files without conversion");

/// Every length is checked against the remaining size of the file. `path` names the file and `what` the value in errors
/// (BadCheckpoint).
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> file, std::string_view path) : rest_(file), path_(path) {}

  std::span<const std::byte> rest() const { return rest_; }
  std::string_view path() const { return path_; }

  std::span<const std::byte> take(std::uint64_t size, std::string_view what) {
    if (size > rest_.size()) {
      throw BadCheckpoint(path_, "expected {} bytes of {}, got {}: the file is truncated", size, what, rest_.size());
    }
    const auto front = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(static_cast<std::size_t>(size));
    return front;
  }

  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string_view text(std::uint64_t size, std::string_view what) {
    const auto bytes = take(size, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> rest_;
  std::string_view path_;
};

}  // namespace vitrine
