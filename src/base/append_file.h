// A file of its own that grows at its end, and of which a job that was killed may have written more than it remembers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vitrine {

class AppendFile {
 public:
  /// Opens the file, or creates it, and cuts it to its first `size` bytes. Throws BadInput if it cannot be opened,
  /// BadCheckpoint if it has fewer bytes.
  AppendFile(std::string path, std::int64_t size);
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();

  /// Appends bytes, which reach the file in large pieces. Throws OutOfCapacity if the disk is full.
  void append(std::span<const std::byte> bytes);
  /// Writes all bytes to disk.
  void sync();

  const std::string& path() const { return path_; }
  std::int64_t size() const { return written_ + std::ssize(pending_); }

 private:
  void flush();

  std::string path_;
  int fd_ = -1;
  std::int64_t written_ = 0;
  std::vector<std::byte> pending_;
};

}  // namespace vitrine
