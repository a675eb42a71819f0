#include "store/block_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/file_stamp.h"
#include "base/file_writer.h"

namespace vitrine {
namespace {

constexpr std::string_view kEnd = ".block", kPart = "part-";
constexpr std::int64_t kDiskBlock = 4096;

std::string file_of(const BlockName& name) { return hex_of(name) + std::string(kEnd); }

bool is_block_file(std::string_view file) {
  constexpr std::size_t kDigits = 2 * sizeof(BlockName);
  const auto is_digit = [](char c) { return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f'); };
  return file.size() == kDigits + kEnd.size() && file.ends_with(kEnd) &&
         std::all_of(file.begin(), file.begin() + kDigits, is_digit);
}

/// What a file of so many bytes takes of a disk.
std::int64_t disk_bytes(std::int64_t size) { return (size + kDiskBlock - 1) / kDiskBlock * kDiskBlock; }

timespec time_of(UseTime used) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(used.time_since_epoch()).count();
  return {ns / 1'000'000'000, ns % 1'000'000'000};
}

bool read_all(int fd, std::span<std::byte> bytes, off_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
  return true;
}

FileHandle open_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    if (errno == ENOSPC || errno == EDQUOT || errno == EROFS) return FileHandle();
    throw_write_error(path, "cannot create the folder");
  }
  FileHandle folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  if (!folder.is_open() || ::fstat(folder.get(), &info) != 0) throw_write_error(path, "cannot open the folder");
  if (info.st_uid != ::geteuid()) {
    throw BadInput(path, "expected a folder of user {}, got one of user {}: its blocks are texts", ::geteuid(),
                   info.st_uid);
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw BadInput(path, "expected a folder that others cannot write, got mode {:04o}; use chmod 700",
                   info.st_mode & 07777);
  }
  if ((info.st_mode & 07777) != 0700) ::fchmod(folder.get(), 0700);  // a read-only disk refuses
  return folder;
}

/// A file of a folder.
struct Entry {
  std::string name;
  std::int64_t bytes = 0, used_ns = 0;
};

std::vector<Entry> entries_of(int folder) {
  std::vector<Entry> entries;
  const int fd = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return entries;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(fd), ::closedir);
  if (list == nullptr) {
    ::close(fd);
    return entries;
  }
  while (const dirent* const entry = ::readdir(list.get())) {
    struct stat info {};
    const std::string name = entry->d_name;
    if (!is_block_file(name) && !name.starts_with(kPart)) continue;
    if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    entries.push_back({name, disk_bytes(info.st_size), stamp_of(info).modified_ns});
  }
  return entries;
}

}  // namespace

BlockFolder::BlockFolder(std::string path, std::int64_t max_bytes)
    : path_(std::move(path)), max_bytes_(max_bytes), folder_(open_folder(path_)) {
  if (!folder_.is_open()) return;
  try {
    FolderLock lock(folder_.get(), path_);
    rescan(&lock);
    make_space(0, lock);
  } catch (const Error&) {  // write() says why
    rescan(nullptr);
  }
}

bool BlockFolder::has(const BlockName& name) const {
  return folder_.is_open() && ::faccessat(folder_.get(), file_of(name).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void BlockFolder::remove(const std::string& file) {
  struct stat info {};
  if (::fstatat(folder_.get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  const int flags = S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0;
  const bool is_removed = ::unlinkat(folder_.get(), file.c_str(), flags) == 0;
  if (is_removed && S_ISREG(info.st_mode)) bytes_ -= disk_bytes(info.st_size);
}

BlockFolder::Found BlockFolder::read(const BlockName& name, std::span<std::byte> content, UseTime used) {
  if (!folder_.is_open()) return Found::nothing;
  const std::string file = file_of(name);
  const FileHandle handle(::openat(folder_.get(), file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const bool is_link = !handle.is_open() && errno == ELOOP;
  if (!handle.is_open() && !is_link) return Found::nothing;
  struct stat info {};
  BlockHeader header{};
  const bool is_right = !is_link && ::fstat(handle.get(), &info) == 0 && S_ISREG(info.st_mode) &&
                        static_cast<std::size_t>(info.st_size) == header.size() + content.size() &&
                        read_all(handle.get(), header, 0) && read_all(handle.get(), content, sizeof header) &&
                        is_block(name, header, content);
  if (!is_right) {
    remove(file);
    return Found::wrong;
  }
  mark(file, used);
  return Found::block;
}

bool BlockFolder::touch(const BlockName& name, UseTime used) const {
  if (!has(name)) return false;
  mark(file_of(name), used);
  return true;
}

/// A read-only disk refuses.
void BlockFolder::mark(const std::string& file, UseTime used) const {
  const timespec times[] = {time_of(used), time_of(used)};
  ::utimensat(folder_.get(), file.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

bool BlockFolder::has_complete(const std::string& file, std::int64_t size) const {
  struct stat info {};
  return ::fstatat(folder_.get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
         info.st_size == size;
}

/// Counts the files anew. Whoever has the lock is the only one who writes: parts of others are of processes that have
/// been killed.
void BlockFolder::rescan(const FolderLock* lock) {
  std::int64_t bytes = 0;
  for (const Entry& entry : entries_of(folder_.get())) {
    const bool is_part = entry.name.starts_with(kPart);
    if (is_part && lock != nullptr && ::unlinkat(folder_.get(), entry.name.c_str(), 0) == 0) continue;
    bytes += entry.bytes;
  }
  bytes_ = bytes;
  if (lock != nullptr) known_changes_ = lock->changes();
}

/// Removes the blocks that have not been used for the longest time, until there is space for so many bytes. To spare
/// the next writers that, an eighth of the folder becomes free.
void BlockFolder::make_space(std::int64_t bytes, FolderLock& lock) {
  if (bytes_ + bytes <= max_bytes_) return;
  std::vector<Entry> entries = entries_of(folder_.get());
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::tie(a.used_ns, a.name) < std::tie(b.used_ns, b.name);
  });
  lock.count();
  known_changes_ = lock.changes();
  std::int64_t kept = 0;
  for (const Entry& entry : entries) kept += entry.bytes;
  const std::int64_t most = std::max<std::int64_t>(0, max_bytes_ - max_bytes_ / 8 - bytes);
  for (const Entry& entry : entries) {
    if (kept <= most) break;
    if (::unlinkat(folder_.get(), entry.name.c_str(), 0) == 0) kept -= entry.bytes;
  }
  bytes_ = kept;
}

void BlockFolder::write(const BlockName& name, std::span<const std::byte> content, UseTime used) {
  if (!folder_.is_open()) throw OutOfCapacity(path_, "the disk is full or read-only");
  const auto size = static_cast<std::int64_t>(sizeof(BlockHeader) + content.size());
  if (disk_bytes(size) > max_bytes_) {
    throw OutOfCapacity(path_, "a block has {} bytes, the folder may have {}", disk_bytes(size), max_bytes_);
  }
  const std::lock_guard guard(writing_);
  const std::string file = file_of(name);
  if (has_complete(file, size)) return mark(file, used);
  FolderLock lock(folder_.get(), path_);
  if (known_changes_ != lock.changes()) rescan(&lock);
  if (has_complete(file, size)) return mark(file, used);
  remove(file);  // of another size, or no file
  make_space(disk_bytes(size), lock);
  lock.count();
  put(file, header_of(name, content), content);
  mark(file, used);
  bytes_ += disk_bytes(size);
  known_changes_ = lock.changes();
}

/// Writes a file aside, syncs it and gives it its name.
void BlockFolder::put(const std::string& file, const BlockHeader& header, std::span<const std::byte> content) const {
  const std::string part = std::string(kPart) + std::to_string(::getpid()), path = path_ + "/" + file;
  ::unlinkat(folder_.get(), part.c_str(), 0);
  FileHandle handle(::openat(folder_.get(), part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!handle.is_open()) throw_write_error(path, "cannot write");
  struct Remover {
    int folder;
    const std::string& part;
    ~Remover() { ::unlinkat(folder, part.c_str(), 0); }
  } remover{folder_.get(), part};  // without effect after the rename
  for (std::span<const std::byte> rest : {std::span<const std::byte>(header), content}) {
    while (!rest.empty()) {
      const ssize_t n = ::write(handle.get(), rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw_write_error(path, "cannot write");
      rest = rest.subspan(static_cast<std::size_t>(n));
    }
  }
  if (::fsync(handle.get()) != 0) throw_write_error(path, "cannot write to disk");
  if (::renameat(folder_.get(), part.c_str(), folder_.get(), file.c_str()) != 0) {
    throw_write_error(path, "cannot rename into place");
  }
}

}  // namespace vitrine
