#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/json.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// As in the Cache Directory Tagging Specification.
constexpr const char* kTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file marks a folder whose files can be fetched again (https://bford.info/cachedir/).\n";

std::string text_of(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string text(most, '\0');
  file.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

/// The size of a regular file that `path` is, or leads to.
std::optional<std::int64_t> size_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status.st_size;
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

}  // namespace

std::string repository_folder(const std::string& repository) {
  std::string folder = "models--" + repository;
  if (const std::size_t slash = folder.find('/'); slash != folder.npos) folder.replace(slash, 1, "--");
  return folder;
}

std::string lock_folder(const std::string& root, const std::string& repository) {
  return root + "/.locks/" + repository_folder(repository);
}

HubCache::HubCache(std::string root, std::string repository)
    : root_(std::move(root)),
      repository_(std::move(repository)),
      folder_(root_ + "/" + repository_folder(repository_)) {}

const std::string& HubCache::inside(const std::string& path) const {
  std::error_code error;
  const fs::path real_root = fs::weakly_canonical(root_, error);
  const fs::path real = error ? fs::path() : fs::weakly_canonical(path, error);
  if (error) throw BadInput(path, "cannot be read: {}", error.message());
  const auto [rest, at] = std::mismatch(real_root.begin(), real_root.end(), real.begin(), real.end());
  if (rest != real_root.end())
    throw BadInput(path, "refused a link that leaves the cache {}, to {}", root_, real.string());
  return path;
}

void HubCache::make_folder(const std::string& path) const {
  std::error_code error;
  fs::create_directories(inside(path), error);
  if (error && !fs::is_directory(path)) throw BadInput(path, "cannot make this folder: {}", error.message());
}

void HubCache::prepare() const {
  std::error_code error;
  fs::create_directories(root_, error);
  if (error && !fs::is_directory(root_)) {
    throw BadInput(root_, "cannot make the cache: {} (HF_HUB_CACHE names another place)", error.message());
  }
  for (const char* const name : {"", "/blobs", "/refs", "/snapshots", "/trees"}) inside(folder_ + name);
  if (const std::string tag = root_ + "/CACHEDIR.TAG"; !exists(tag)) write_file(tag, kTag);
  make_folder(folder_ + "/blobs");
  make_folder(lock_folder(root_, repository_));
}

std::optional<std::string> HubCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const std::string path = inside(folder_ + "/refs/" + revision);
  if (!size_of(path)) return std::nullopt;
  std::string commit = text_of(path, 128);
  check_hexadecimal(commit, 40, path);
  return commit;
}

bool HubCache::has_tree(const std::string& commit) const { return size_of(inside(tree_path(commit))).has_value(); }

std::vector<RemoteFile> HubCache::files(const std::string& commit) const {
  std::vector<RemoteFile> files;
  if (has_tree(commit)) {
    const std::string path = tree_path(commit);
    const Json json = parse_json(text_of(path, std::size_t{64} << 20), path);
    const Json rows = json.is_object() ? json.value("files", Json()) : Json();
    if (!rows.is_object() || json.value("format_version", Json()) != 1)
      throw BadCheckpoint(path, "expected a list of files");
    for (const auto& [name, row] : rows.items()) {
      check_path_inside(name, path);
      const bool is_large = row.is_object() && row.value("lfs_sha256", Json()).is_string();
      const Json size = row.is_object() ? row.value(is_large ? "lfs_size" : "size", row.value("size", Json())) : Json();
      const Json id = row.is_object() ? row.value("blob_id", Json()) : Json();
      if (!size.is_number_unsigned() || !id.is_string())
        throw BadCheckpoint(path, "{}: expected a size and an id", name);
      RemoteFile file{name, size.get<std::int64_t>(), id.get<std::string>()};
      check_hexadecimal(file.blob_id, 40, path);
      if (is_large) file.sha256 = row["lfs_sha256"].get<std::string>();
      if (is_large) check_hexadecimal(*file.sha256, 64, path);
      files.push_back(std::move(file));
    }
    return files;
  }
  const std::string top = inside(snapshot(commit));
  std::error_code error;
  for (fs::recursive_directory_iterator it(top, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    if (const auto size = size_of(path)) files.push_back({path.substr(top.size() + 1), *size, ""});
  }
  return files;
}

void HubCache::write_tree(const std::string& commit, const std::vector<RemoteFile>& files) const {
  Json rows = Json::object();
  for (const RemoteFile& file : files) {
    rows[file.path] = {{"size", file.size}, {"blob_id", file.blob_id}};
    if (file.sha256) rows[file.path].update({{"lfs_sha256", *file.sha256}, {"lfs_size", file.size}});
  }
  make_folder(folder_ + "/trees");
  const Json tree = {{"format_version", 1}, {"files", std::move(rows)}};
  write_file(inside(tree_path(commit)), tree.dump(1));
}

void HubCache::write_ref(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return;
  const std::string path = folder_ + "/refs/" + revision;
  make_folder(fs::path(path).parent_path().string());
  if (size_of(inside(path)) && text_of(path, 128) == commit) return;
  write_file(path, commit);
}

bool HubCache::has_file(const std::string& commit, const RemoteFile& file) const {
  const std::string path = snapshot(commit) + "/" + file.path;
  if (!exists(path)) return false;
  return size_of(inside(path)) == file.size;
}

bool HubCache::has_blob(const RemoteFile& file) const {
  const std::string path = blob(file.etag());
  return exists(path) && size_of(inside(path)) == file.size;
}

void HubCache::link(const std::string& commit, const RemoteFile& file) const {
  if (has_file(commit, file)) return;
  const std::string path = snapshot(commit) + "/" + file.path;
  const std::string parent = fs::path(path).parent_path().string();
  make_folder(parent);
  const std::string target = fs::path(inside(blob(file.etag()))).lexically_relative(parent).string();
  // Aside and renamed: a link to another blob may be there.
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    throw_write_error(path, "cannot make a link");
  }
  sync_folder(parent);
}

HubLock::HubLock(const HubCache& cache, const std::string& etag, const std::function<void()>& poll) {
  const std::string folder = lock_folder(cache.root(), cache.repository());
  const std::string path = folder + "/" + etag + ".lock";
  while (true) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
    if (fd_ < 0) throw_write_error(path, "cannot write here");
    while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return;  // the file system has no locks
      try {
        if (poll) poll();
      } catch (...) {
        ::close(fd_);
        throw;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    struct stat own {
    }, named{};
    if (::fstat(fd_, &own) == 0 && ::stat(path.c_str(), &named) == 0 && own.st_ino == named.st_ino) return;
    ::close(fd_);  // whoever had it has removed the file
  }
}

HubLock::~HubLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace vitrine
