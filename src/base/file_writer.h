// Writing files so that nothing is lost: aside, fsynced, renamed. A reader sees the old file or the whole new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vitrine {

/// Writes `path` by way of a temporary file beside it; commit() makes it appear under its name. Without a commit the
/// temporary file is removed and whatever stood at `path` is untouched. Every failure throws: BadInput where the place
/// cannot be written, OutOfCapacity where the disk is full.
class FileWriter {
 public:
  explicit FileWriter(std::string path);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  /// Appends. Bytes reach the file in large pieces at even places: the system then keeps them in large pages, from
  /// which a file that is mapped soon after is read half as fast again.
  void write(std::span<const std::byte> bytes);
  /// Overwrites bytes that were written before (a header whose content is known last).
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;
  void flush();
  void put(std::int64_t offset, std::span<const std::byte> bytes);

  std::string path_;
  std::string temporary_;
  std::vector<std::byte> pending_;  // behind the `written_` bytes of the file
  std::int64_t written_ = 0;
  int fd_ = -1;
};

}  // namespace vitrine
