#include "store/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/file_writer.h"

namespace vitrine {

FolderLock::FolderLock(int folder, const std::string& path) : path_(path + "/lock") {
  constexpr std::chrono::milliseconds kPause(5), kLongest(5000);
  file_ = FileHandle(::openat(folder, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat info {};
  if (!file_.is_open()) throw_write_error(path_, "cannot open");
  if (::fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode)) throw BadInput(path_, "expected a regular file");
  const auto end = std::chrono::steady_clock::now() + kLongest;
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    const bool is_taken = errno == EWOULDBLOCK || errno == EINTR;
    if (!is_taken) throw_write_error(path_, "cannot lock");
    if (std::chrono::steady_clock::now() > end) throw BadInput(path_, "another process has kept the lock");
    std::this_thread::sleep_for(kPause);
  }
  if (::pread(file_.get(), &changes_, sizeof changes_, 0) != sizeof changes_) changes_ = 0;
}

void FolderLock::count() {
  ++changes_;
  if (::pwrite(file_.get(), &changes_, sizeof changes_, 0) != sizeof changes_) throw_write_error(path_, "cannot write");
}

}  // namespace vitrine
