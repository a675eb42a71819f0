// Atomic file writes: to a temporary file, fsync, rename. A reader sees the old file or the complete new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

/// What receives the bytes of a file in their order.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  /// Appends.
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// Overwrites bytes that have already been written, for a header whose content is not known until the end.
  virtual void write_at(std::int64_t offset, std::span<const std::byte> bytes) = 0;
  /// The file is complete.
  virtual void commit() = 0;
};

/// A file in memory.
class MemorySink : public ByteSink {
 public:
  explicit MemorySink(std::string& text) : text_(text) {}
  void write(std::span<const std::byte> bytes) override {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    text_.replace(static_cast<std::size_t>(offset), bytes.size(), reinterpret_cast<const char*>(bytes.data()),
                  bytes.size());
  }
  void commit() override {}

 private:
  std::string& text_;
};

/// Writes a temporary file next to `path`; commit() renames it. Without a commit the temporary file is removed and
/// `path` is unchanged. Throws BadInput if the file cannot be written, OutOfCapacity if the disk is full.
class FileWriter : public ByteSink {
 public:
  explicit FileWriter(std::string path);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter() override;

  /// Appends. Bytes are written in large aligned blocks, so that the page cache stores them in large folios, which
  /// makes reading the file through a mapping soon afterwards 1.5 times as fast.
  void write(std::span<const std::byte> bytes) override;
  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override;
  void commit() override;

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
