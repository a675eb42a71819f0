#include "base/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_writer.h"

namespace vitrine {
namespace {

constexpr std::size_t kPendingBytes = std::size_t{1} << 20;

}  // namespace

AppendFile::AppendFile(std::string path, std::int64_t size) : path_(std::move(path)), written_(size) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) throw BadInput(path_, "cannot write here: {}", std::generic_category().message(errno));
  struct stat info {};
  const bool is_known = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  const bool is_cut = is_known && info.st_size >= size && ::ftruncate(fd_, size) == 0;
  if (is_cut) return;
  ::close(std::exchange(fd_, -1));
  if (!is_known) throw BadInput(path_, "expected a regular file to write");
  throw BadCheckpoint(path_, "expected at least {} bytes, got {}", size, info.st_size);
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::append(std::span<const std::byte> bytes) {
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  if (pending_.size() >= kPendingBytes) flush();
}

void AppendFile::flush() {
  for (std::span<const std::byte> rest = pending_; !rest.empty();) {
    const ssize_t n = ::pwrite(fd_, rest.data(), rest.size(), written_ + std::ssize(pending_) - std::ssize(rest));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_write_error(path_, "cannot write");
    rest = rest.subspan(static_cast<std::size_t>(n));
  }
  written_ += std::ssize(pending_);
  pending_.clear();
}

void AppendFile::sync() {
  flush();
  if (::fdatasync(fd_) != 0) throw_write_error(path_, "cannot write to disk");
}

}  // namespace vitrine
