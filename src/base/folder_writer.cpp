#include "base/folder_writer.h"

#include <fcntl.h>
#include <stdio.h>  // renameat2

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_writer.h"

namespace vitrine {

namespace fs = std::filesystem;

FolderWriter::FolderWriter(std::string path) : path_(std::move(path)) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  if (path_.empty()) throw BadInput("folder", "expected the name of a folder to write, got an empty string");
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_directory(path_, error)) {
    throw BadInput(path_, "expected a folder to write, got a file");
  }
  temporary_ = path_ + ".tmp";
  fs::remove_all(temporary_, error);
  if (!error) fs::create_directories(temporary_, error);
  if (error) throw BadInput(path_, "cannot write here: {}", error.message());
}

FolderWriter::~FolderWriter() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void FolderWriter::commit() {
  sync_folder(temporary_);
  std::error_code error;
  const bool replaces = fs::exists(path_, error);
  // The two folders swap names atomically, so that `path_` always names a complete folder.
  const unsigned flags = replaces ? RENAME_EXCHANGE : 0;
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), flags) != 0) {
    throw BadInput(path_, "cannot rename into place: {}", std::generic_category().message(errno));
  }
  committed_ = true;
  sync_folder(fs::absolute(path_).parent_path().string());
  if (replaces) fs::remove_all(temporary_, error);
}

}  // namespace vitrine
