// Writing a folder so that nothing is lost: aside, fsynced, renamed. A reader sees the old folder or the whole new one.
#pragma once

#include <string>

namespace vitrine {

/// A folder `path.tmp` to write into; commit() makes it appear as `path`, in place of a folder that stands there.
/// Without a commit it is removed, and `path` is untouched; one that a process left behind when it was killed is
/// removed by the next writer of the same path. One writer of a path at a time. Every failure throws BadInput.
class FolderWriter {
 public:
  explicit FolderWriter(std::string path);
  FolderWriter(const FolderWriter&) = delete;
  FolderWriter& operator=(const FolderWriter&) = delete;
  ~FolderWriter();

  /// Where to write a file of that name; FileWriter and those built on it bring it to disk.
  std::string file(const std::string& name) const { return temporary_ + "/" + name; }
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  bool committed_ = false;
};

}  // namespace vitrine
