#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/nearest.h"

namespace vitrine {

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block the open
  if (fd < 0) {
    const int error = errno;
    throw BadInput(path, "cannot open: {}{}", std::generic_category().message(error),
                   error == ENOENT ? did_you_mean_file(path) : "");
  }
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};

  struct stat info {};
  if (::fstat(fd, &info) != 0) throw BadInput(path, "cannot stat: {}", std::generic_category().message(errno));
  if (S_ISDIR(info.st_mode)) throw BadInput(path, "expected a file, got a folder");
  if (!S_ISREG(info.st_mode)) throw BadInput(path, "expected a regular file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(path, {}));

  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) {
    throw OutOfCapacity(path, "cannot map {} bytes: {}", size, std::generic_category().message(errno));
  }
  ::madvise(data, size, MADV_HUGEPAGE);  // faults read whole large pages; the kernel may refuse
  return std::shared_ptr<const MappedFile>(new MappedFile(path, {static_cast<const std::byte*>(data), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace vitrine
