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

#include "base/error.h"
#include "base/file_writer.h"
#include "hub/digest.h"

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

std::int64_t place_of(std::int64_t size, int slot) { return size + slot * static_cast<std::int64_t>(sizeof(Slot)); }

}  // namespace

PartFile::PartFile(std::string path, std::int64_t size) : path_(std::move(path)), size_(size) {
  // O_NOFOLLOW: a link in the place of a part could lead out of the cache.
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) throw_write_error(path_, "cannot write here");
  struct stat status {};
  ::fstat(fd_, &status);
  if (!S_ISREG(status.st_mode)) {
    ::close(fd_);
    throw BadInput(path_, "expected a regular file");
  }
  // A part without a record was about to be committed: its hash decides.
  if (status.st_size == size_ && size_ > 0) present_.add({0, size_});
  std::uint64_t newest = 0;
  for (int slot = 0; slot < 2; ++slot) {
    std::uint64_t sequence = 0;
    ByteRanges ranges;
    if (!read_slot(slot, sequence, ranges) || sequence <= newest) continue;
    newest = sequence_ = sequence;
    present_ = ranges;
  }
  if (sequence_ > 0 || !present_.all().empty()) return;
  for (int slot = 0; slot < 2; ++slot) record();  // both have their place on the disk before it may be full
}

PartFile::~PartFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool PartFile::read_slot(int slot, std::uint64_t& sequence, ByteRanges& ranges) const {
  const auto read = std::make_unique<Slot>();
  if (::pread(fd_, read.get(), sizeof(Slot), place_of(size_, slot)) != static_cast<ssize_t>(sizeof(Slot))) return false;
  const bool is_record = read->magic == kMagic && read->size == static_cast<std::uint64_t>(size_) &&
                         read->count <= kMaxRanges && hash_of(*read) == std::string_view(read->hash, sizeof read->hash);
  if (!is_record) return false;
  sequence = read->sequence;
  for (const ByteRange& range : std::span(read->ranges).first(read->count)) {
    if (range.begin < 0 || range.end > size_) return false;
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
  const std::int64_t place = place_of(size_, static_cast<int>(sequence_ % 2));
  if (::pwrite(fd_, slot.get(), sizeof(Slot), place) != static_cast<ssize_t>(sizeof(Slot)) || ::fdatasync(fd_) != 0) {
    throw_write_error(path_, "cannot write to disk");
  }
}

void PartFile::commit(const std::string& path) {
  if (::fdatasync(fd_) != 0 || ::ftruncate(fd_, size_) != 0 || ::fsync(fd_) != 0) {
    throw_write_error(path_, "cannot write to disk");
  }
  if (::rename(path_.c_str(), path.c_str()) != 0) throw_write_error(path, "cannot rename into place");
  sync_folder(std::filesystem::path(path).parent_path().string());
}

void PartFile::remove() { ::unlink(path_.c_str()); }

std::int64_t part_bytes(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? std::int64_t{512} * status.st_blocks : 0;
}

}  // namespace vitrine
