// A file of the cache that has not arrived as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hub/byte_ranges.h"

namespace vitrine {

/// The content at its place, and in a file next to it (`PATH.ranges`) a record of the ranges that are known to be on
/// disk. The record has two slots, which are written in turn, each with its hash: a crash leaves at least one that is
/// whole, and a slot names a range only after the range has been synced. Throws OutOfCapacity if the disk is full,
/// BadInput if the files cannot be used.
class PartFile {
 public:
  /// Opens the part of a content of `size` bytes, or creates an empty one.
  PartFile(std::string path, std::int64_t size);
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile();

  /// What is there: synced, or written by this object.
  const ByteRanges& present() const { return present_; }
  /// Bytes written since the last sync().
  std::int64_t unsynced() const { return unsynced_; }
  void write(std::int64_t offset, std::span<const std::byte> bytes);
  /// Fills `bytes` from what is present.
  void read(std::int64_t offset, std::span<std::byte> bytes) const;
  /// Syncs what has been written, then records it.
  void sync();
  /// Makes the part the file `path`: synced, without the record.
  void commit(const std::string& path);
  /// Removes the part.
  void remove();

 private:
  std::string record_path() const { return path_ + ".ranges"; }
  void record();  // of what is present and synced
  void read_record();
  void close();
  bool read_slot(int slot, std::uint64_t& sequence, ByteRanges& ranges) const;

  std::string path_;
  std::int64_t size_ = 0, unsynced_ = 0;
  std::uint64_t sequence_ = 0;  // of the last record
  ByteRanges present_;
  int fd_ = -1, record_ = -1;
};

/// The bytes that the part at `path` has on disk, for lists; 0 if it cannot be read.
std::int64_t part_bytes(const std::string& path);

}  // namespace vitrine
