// A folder of blocks, which several processes share: each is a file whose name is that of the block.
//
// A block is written aside, synced and renamed, so that a reader sees all of it or nothing. Readers take no lock.
// Writers do: one of them makes space for its block, and writes it. When the folder is full, the blocks that have not
// been used for the longest time are removed. The time of use is the file's time of modification, as file systems may
// be mounted without times of access.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "store/block_file.h"
#include "store/file_handle.h"
#include "store/folder_lock.h"

namespace vitrine {

using UseTime = std::chrono::system_clock::time_point;

/// All members may be called from any thread.
class BlockFolder {
 public:
  enum class Found : std::uint8_t { nothing, wrong, block };

  /// Opens the folder, which only its owner can read from then on; creates it if there is none. A disk that is full or
  /// read-only is no error: then it has no blocks, and write() says why. Removes what is above `max_bytes`. Throws
  /// BadInput for what is no folder, belongs to another user, or can be written by others.
  BlockFolder(std::string path, std::int64_t max_bytes);

  /// Whether there is a file for the block.
  bool has(const BlockName& name) const;
  /// Marks the block as used, if there is a file for it. Returns whether there is.
  bool touch(const BlockName& name, UseTime used) const;
  /// Fills `content` with that of a block, which must have this size. A file that is not this block is removed.
  Found read(const BlockName& name, std::span<std::byte> content, UseTime used);
  /// Writes a block, unless it is there. Throws OutOfCapacity for a full disk and a block above `max_bytes`, BadInput
  /// if the folder cannot be written.
  void write(const BlockName& name, std::span<const std::byte> content, UseTime used);
  /// Of the files that are known to this process.
  std::int64_t bytes() const { return bytes_; }

 private:
  bool has_complete(const std::string& file, std::int64_t size) const;
  void mark(const std::string& file, UseTime used) const;
  void remove(const std::string& file);
  void rescan(const FolderLock* lock);
  void make_space(std::int64_t bytes, FolderLock& lock);
  void put(const std::string& file, const BlockHeader& header, std::span<const std::byte> content) const;

  std::string path_;
  std::int64_t max_bytes_;
  FileHandle folder_;
  std::mutex writing_;
  std::optional<std::uint64_t> known_changes_;  // which bytes_ includes
  std::atomic<std::int64_t> bytes_ = 0;
};

}  // namespace vitrine
