// Atomic file writes: to a temporary file, fsync, rename. A reader sees the old file or the complete new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

/// Writes a temporary file next to `path`; commit() renames it. Without a commit the temporary file is removed and
/// `path` is unchanged. Throws BadInput if the file cannot be written, OutOfCapacity if the disk is full.
class FileWriter {
 public:
  explicit FileWriter(std::string path);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  /// Appends. Bytes are written in large aligned blocks, so that the page cache stores them in large folios, which
  /// makes reading the file through a mapping soon afterwards 1.5 times as fast.
  void write(std::span<const std::byte> bytes);
  /// Overwrites bytes that have already been written, for a header whose content is not known until the end.
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  void commit();

 private:
  void flush();
  void put(std::int64_t offset, std::span<const std::byte> bytes);

  std::string path_;
  std::string temporary_;
  std::vector<std::byte> pending_;  // follow the `written_` bytes of the file
  std::int64_t written_ = 0;
  int fd_ = -1;
};

/// Replaces the file at `path` by one that holds `text`. Throws as FileWriter does.
void write_file(const std::string& path, std::string_view text);

/// Throws for a write to `path` that has failed with errno: OutOfCapacity if the disk is full, else BadInput. `what` is
/// the message.
[[noreturn]] void throw_write_error(const std::string& path, const char* what);

/// Throws OutOfCapacity if the disk of `path` has fewer free bytes. Does nothing if that cannot be determined.
void check_disk_space(const std::string& path, std::int64_t bytes);

/// Writes the entries of a folder to disk. Ignores errors, because some file systems do not support this.
void sync_folder(const std::string& folder);

}  // namespace vitrine
