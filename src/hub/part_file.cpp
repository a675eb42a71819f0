#include "hub/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/file_writer.h"

namespace vitrine {
namespace {

constexpr std::uint64_t kMagic = 0x31545241'50545654;  // "TVTPART1" in the file
constexpr std::size_t kMaxRanges = 1 << 10;

/// A slot of the record, as it is in the file.
struct Slot {
  std::uint64_t magic = kMagic, sequence = 0, size = 0, count = 0;
  ByteRange ranges[kMaxRanges]{};
  char hash[64]{};  // SHA-256 of what precedes it, in hexadecimal digits
};

std::string hash_of(const Slot& slot) {
  Digest digest = Digest::sha256();
  digest.update(std::as_bytes(std::span(&slot, 1)).first(offsetof(Slot, hash)));
  return digest.finish();
}

/// Opens a file for reading and writing. O_NOFOLLOW: a link in its place could lead out of the cache.
int open_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) throw_write_error(path, "cannot write here");
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  ::close(fd);
  throw BadInput(path, "expected a regular file");
}

}  // namespace

PartFile::PartFile(std::string path, std::int64_t size) : path_(std::move(path)), size_(size) {
  fd_ = open_file(path_);
  try {
    record_ = open_file(record_path());
    read_record();
  } catch (...) {
    close();
    throw;
  }
}

void PartFile::read_record() {
  std::uint64_t newest = 0;
  for (int slot = 0; slot < 2; ++slot) {
    std::uint64_t sequence = 0;
    ByteRanges ranges;
    if (!read_slot(slot, sequence, ranges) || sequence <= newest) continue;
    newest = sequence_ = sequence;
    present_ = ranges;
  }
  if (sequence_ > 0) return;
  for (int slot = 0; slot < 2; ++slot) record();  // both have their place on the disk before it may be full
}

PartFile::~PartFile() { close(); }

void PartFile::close() {
  for (const int fd : {fd_, record_}) {
    if (fd >= 0) ::close(fd);
  }
}

bool PartFile::read_slot(int slot, std::uint64_t& sequence, ByteRanges& ranges) const {
  const auto read = std::make_unique<Slot>();
  constexpr auto kSize = static_cast<ssize_t>(sizeof(Slot));
  if (::pread(record_, read.get(), sizeof(Slot), slot * kSize) != kSize) return false;
  const bool is_record = read->magic == kMagic && read->size == static_cast<std::uint64_t>(size_) &&
                         read->count <= kMaxRanges && hash_of(*read) == std::string_view(read->hash, sizeof read->hash);
  if (!is_record) return false;
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return false;  // the content may be another one, which is shorter
  sequence = read->sequence;
  for (const ByteRange& range : std::span(read->ranges).first(read->count)) {
    if (range.begin < 0 || range.end > std::min<std::int64_t>(size_, status.st_size)) return false;
    ranges.add(range);
  }
  return true;
}

void PartFile::write(std::int64_t offset, std::span<const std::byte> bytes) {
  if (offset < 0 || static_cast<std::int64_t>(bytes.size()) > size_ - offset) {
    throw InternalError(path_, "{} bytes at {} are outside of {}", bytes.size(), offset, size_);
  }
  const auto n_bytes = static_cast<std::int64_t>(bytes.size());
  for (std::int64_t at = offset; !bytes.empty();) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_write_error(path_, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += n;
  }
  present_.add({offset, offset + n_bytes});
  unsynced_ += n_bytes;
}

void PartFile::read(std::int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(fd_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw BadInput(path_, "cannot read: {}", std::generic_category().message(n < 0 ? errno : EIO));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
}

void PartFile::sync() {
  if (unsynced_ == 0 || present_.all().size() > kMaxRanges) return;
  if (::fdatasync(fd_) != 0) throw_write_error(path_, "cannot write to disk");
  record();
  unsynced_ = 0;
}

void PartFile::record() {
  const auto slot = std::make_unique<Slot>();
  slot->sequence = ++sequence_;
  slot->size = static_cast<std::uint64_t>(size_);
  slot->count = present_.all().size();
  std::ranges::copy(present_.all(), slot->ranges);
  std::memcpy(slot->hash, hash_of(*slot).data(), sizeof slot->hash);
  constexpr auto kSize = static_cast<ssize_t>(sizeof(Slot));
  const auto place = static_cast<off_t>(sequence_ % 2) * kSize;
  if (::pwrite(record_, slot.get(), sizeof(Slot), place) != kSize || ::fdatasync(record_) != 0) {
    throw_write_error(record_path(), "cannot write to disk");
  }
}

void PartFile::commit(const std::string& path) {
  if (::fsync(fd_) != 0) throw_write_error(path_, "cannot write to disk");
  if (::rename(path_.c_str(), path.c_str()) != 0) throw_write_error(path, "cannot rename into place");
  ::unlink(record_path().c_str());
  sync_folder(std::filesystem::path(path).parent_path().string());
}

void PartFile::remove() {
  ::unlink(record_path().c_str());
  ::unlink(path_.c_str());
}

std::int64_t part_bytes(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? std::int64_t{512} * status.st_blocks : 0;
}

}  // namespace vitrine
