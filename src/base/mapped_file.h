// A file of weights or tokens, mapped read-only into memory. Opening the file does not read its contents.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file_stamp.h"

namespace vitrine {

/// A whole file, mapped read-only. Pages are read from disk when they are first touched.
class MappedFile {
 public:
  /// Throws BadInput if the path is not a readable regular file, OutOfCapacity if it cannot be mapped.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  /// The same for a text that is read once: also the contents of a pipe, and for `-` those of standard input. Each call
  /// reads a pipe anew: a caller that needs the text twice keeps the file.
  static std::shared_ptr<const MappedFile> open_or_read(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// If `part` is memory of a mapped file: its whole pages leave the memory of this process until they are touched
  /// again, one at a time from now on. Other memory does not change.
  static void release(std::span<const std::byte> part);
  /// If `part` is memory of a mapped file: reads its pages now, so that nobody waits for the disk who touches them.
  /// Other memory does not change.
  static void read_ahead(std::span<const std::byte> part);

  const std::string& path() const { return path_; }
  /// Of the file when it was opened; zeros if it is not mapped.
  const FileStamp& stamp() const { return stamp_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  /// The text without the byte order mark of UTF-8, with which some editors begin a file.
  std::string_view text_without_mark() const { return text().substr(text().starts_with("\xEF\xBB\xBF") ? 3 : 0); }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}
  MappedFile(std::string path, std::string read)
      : path_(std::move(path)), read_(std::move(read)), bytes_(std::as_bytes(std::span(read_))) {}
  static std::shared_ptr<const MappedFile> open(const std::string& path, bool may_read);

  std::string path_;
  FileStamp stamp_{};
  std::string read_{};  // the contents, if they are not mapped
  std::span<const std::byte> bytes_;
};

}  // namespace vitrine
