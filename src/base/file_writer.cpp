#include "base/file_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;
constexpr std::int64_t kQueued = std::int64_t{16} << 20;  // maximum number of bytes that are not on disk yet

}  // namespace

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  if (path_.empty()) throw BadInput("file", "expected the name of a file to write, got an empty string");
  std::error_code ignored;
  const auto status = std::filesystem::status(path_, ignored);
  if (std::filesystem::is_directory(status)) throw BadInput(path_, "expected a file to write, got a folder");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw BadInput(path_, "expected a regular file to write");  // the rename would replace the device
  }
  if (std::filesystem::exists(status)) path_ = std::filesystem::canonical(path_, ignored).string();  // follows links
  // O_EXCL and a counter in the name: two writers never share a temporary file. Unlike mkstemp, open applies the umask.
  for (int attempt = 0; fd_ < 0; ++attempt) {
    temporary_ = path_ + "." + std::to_string(::getpid()) + "-" + std::to_string(attempt) + ".tmp";
    fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST)
      throw BadInput(path_, "cannot write here: {}", std::generic_category().message(errno));
  }
}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kPiece - pending_.size());
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    if (pending_.size() == kPiece) flush();
  }
}

void FileWriter::flush() {
  put(written_, pending_);
  // Starts writing to disk now, because no signal can interrupt the final fsync, which must therefore be short.
  ::sync_file_range(fd_, written_, static_cast<off_t>(pending_.size()), SYNC_FILE_RANGE_WRITE);
  if (written_ >= kQueued) {
    ::sync_file_range(fd_, written_ - kQueued, kPiece,
                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  written_ += static_cast<std::int64_t>(pending_.size());
  pending_.clear();
}

void FileWriter::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  flush();
  put(offset, bytes);
}

void FileWriter::put(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_write_error(path_, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
}

void FileWriter::commit() {
  flush();
  if (::fsync(fd_) != 0) throw_write_error(path_, "cannot write to disk");
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  if (!closed || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    errno = error;
    throw_write_error(path_, closed ? "cannot rename into place" : "cannot close");
  }
  sync_folder(std::filesystem::absolute(path_).parent_path().string());
}

void write_file(const std::string& path, std::string_view text) {
  FileWriter writer(path);
  writer.write(std::as_bytes(std::span(text)));
  writer.commit();
}

void throw_write_error(const std::string& path, const char* what) {
  const int error = errno;
  const std::string reason = std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) throw OutOfCapacity(path, "{}: {}", what, reason);
  throw BadInput(path, "{}: {}", what, reason);
}

void check_disk_space(const std::string& path, std::int64_t bytes) {
  std::error_code error;
  const auto space = std::filesystem::space(std::filesystem::absolute(path, error).parent_path(), error);
  if (error || space.available >= static_cast<std::uintmax_t>(bytes)) return;
  throw OutOfCapacity(path, "the weights need {:.1f} GB, the disk has {:.1f} GB left", static_cast<double>(bytes) / 1e9,
                      static_cast<double>(space.available) / 1e9);
}

void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace vitrine
