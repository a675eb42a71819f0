// Atomic folder writes: to a temporary folder, fsync, rename. A reader sees the old folder or the complete new one.
#pragma once

#include <string>

namespace vitrine {

/// A folder `path.tmp` to write into. commit() renames it to `path` and removes the folder that had this name. Without
/// a commit, `path.tmp` is removed and `path` is unchanged. If a process is killed, the next writer of the same path
/// removes its `path.tmp`. Only one writer of a path may exist at a time. Every failure throws BadInput.
class FolderWriter {
 public:
  explicit FolderWriter(std::string path);
  FolderWriter(const FolderWriter&) = delete;
  FolderWriter& operator=(const FolderWriter&) = delete;
  ~FolderWriter();

  /// The path at which to write a file called `name`. The caller must sync the file, as FileWriter does.
  std::string file(const std::string& name) const { return temporary_ + "/" + name; }
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  bool committed_ = false;
};

}  // namespace vitrine
