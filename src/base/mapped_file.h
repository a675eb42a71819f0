// A file of weights or tokens, mapped read-only into memory: opening it reads nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace vitrine {

/// A whole regular file, mapped read-only. Pages are read from disk when they are first touched.
class MappedFile {
 public:
  /// Throws BadInput where the path is no readable regular file, OutOfCapacity where it cannot be mapped.
  static std::shared_ptr<const MappedFile> open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace vitrine
