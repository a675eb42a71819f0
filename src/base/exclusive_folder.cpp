#include "base/exclusive_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace vitrine {

ExclusiveFolder::ExclusiveFolder(const std::string& folder) {
  fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) throw BadInput(folder, "cannot open the folder: {}", std::generic_category().message(errno));
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(fd_);
  throw BadInput(folder, "another process is writing into this folder");
}

ExclusiveFolder::~ExclusiveFolder() { ::close(fd_); }

}  // namespace vitrine
