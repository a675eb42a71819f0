#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <system_error>

#include "base/error.h"
#include "base/nearest.h"
#include "base/pages.h"

namespace vitrine {
namespace {

/// All files that are mapped: where each begins, and its end.
struct Mappings {
  std::mutex mutex;
  std::map<std::uintptr_t, std::uintptr_t> ends;
};

Mappings& mappings() {
  static Mappings all;
  return all;
}

/// The whole pages of a part of a mapped file; none of other memory.
std::span<const std::byte> mapped_pages(std::span<const std::byte> part) {
  const auto begin = std::bit_cast<std::uintptr_t>(part.data()), end = begin + part.size();
  const std::lock_guard lock(mappings().mutex);
  const auto after = mappings().ends.upper_bound(begin);
  if (after == mappings().ends.begin() || std::prev(after)->second < end) return {};
  return pages_of(part);
}

std::string read_all(int fd, const std::string& path) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  std::string text;
  for (;;) {
    const std::size_t size = text.size();
    text.resize(size + kPiece);
    const ssize_t n = ::read(fd, text.data() + size, kPiece);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) throw BadInput(path, "cannot read: {}", std::generic_category().message(errno));
  }
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) { return open(path, false); }

std::shared_ptr<const MappedFile> MappedFile::open_or_read(const std::string& path) { return open(path, true); }

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path, bool may_read) {
  const bool is_stdin = may_read && path == "-";
  const int flags = O_RDONLY | O_CLOEXEC | (may_read ? 0 : O_NONBLOCK);  // a FIFO must not block an open for mapping
  const int fd = is_stdin ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : ::open(path.c_str(), flags);
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
  if (!S_ISREG(info.st_mode) && !may_read) throw BadInput(path, "expected a regular file");
  if (!S_ISREG(info.st_mode)) return std::shared_ptr<const MappedFile>(new MappedFile(path, read_all(fd, path)));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(path, std::span<const std::byte>()));

  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) {
    throw OutOfCapacity(path, "cannot map {} bytes: {}", size, std::generic_category().message(errno));
  }
  ::madvise(data, size, MADV_HUGEPAGE);  // faults read whole large pages; the kernel may refuse
  const auto begin = std::bit_cast<std::uintptr_t>(data);
  {
    const std::lock_guard lock(mappings().mutex);
    mappings().ends[begin] = begin + size;
  }
  const std::shared_ptr<MappedFile> file(new MappedFile(path, std::span(static_cast<const std::byte*>(data), size)));
  file->stamp_ = stamp_of(info);
  return file;
}

MappedFile::~MappedFile() {
  if (bytes_.empty() || !read_.empty()) return;
  const std::lock_guard lock(mappings().mutex);
  mappings().ends.erase(std::bit_cast<std::uintptr_t>(bytes_.data()));
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(std::span<const std::byte> part) {
  const std::span<const std::byte> pages = mapped_pages(part);
  if (pages.empty()) return;
  void* const data = const_cast<std::byte*>(pages.data());
  ::madvise(data, pages.size(), MADV_NOHUGEPAGE);  // errors are ignored
  ::madvise(data, pages.size(), MADV_DONTNEED);
}

void MappedFile::read_ahead(std::span<const std::byte> part) {
  // Other threads cannot map memory during a call, so each is short.
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ of Linux 5.14
  const std::span<const std::byte> pages = mapped_pages(part);
  for (std::size_t at = 0; at < pages.size(); at += kPiece) {
    void* const data = const_cast<std::byte*>(pages.data() + at);
    const std::size_t size = std::min(kPiece, pages.size() - at);
    if (::madvise(data, size, kPopulateRead) != 0) ::madvise(data, size, MADV_WILLNEED);  // errors are ignored
  }
}

}  // namespace vitrine
