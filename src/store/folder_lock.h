// The lock of those who change a folder of blocks, and a count of their changes.
#pragma once

#include <cstdint>
#include <string>

#include "store/file_handle.h"

namespace vitrine {

/// One process at a time has the lock; it ends with the object or the process.
class FolderLock {
 public:
  /// Waits for the lock, at most a few seconds. `folder`: its descriptor; `path` names it in errors. Throws BadInput if
  /// the folder cannot be written or the lock is not free, OutOfCapacity if the disk is full.
  FolderLock(int folder, const std::string& path);

  /// A number that count() has changed, here or in another process.
  std::uint64_t changes() const { return changes_; }
  /// Counts a change that is about to be made.
  void count();

 private:
  std::string path_;
  FileHandle file_;
  std::uint64_t changes_ = 0;
};

}  // namespace vitrine
