// What tells versions of a file apart without reading it.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace vitrine {

/// A write changes the times, of which the system lets nobody set the second.
struct FileStamp {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;  ///< Unix time.

  bool operator==(const FileStamp&) const = default;
};

inline FileStamp stamp_of(const struct stat& info) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size),
          info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec, info.st_ctim.tv_sec * kSecond + info.st_ctim.tv_nsec};
}

}  // namespace vitrine
