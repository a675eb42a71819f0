#include "hub/stored_models.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "hub/cache.h"
#include "hub/part_file.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// Calls visit(path) for everything in a folder that is not itself a folder, or for nothing if there is no folder.
/// Links are not followed.
template <class Visit>
void for_each_file(const fs::path& folder, Visit&& visit) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!fs::is_directory(it->symlink_status(ignored))) visit(it->path());
  }
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (fs::is_directory(it->symlink_status(ignored))) found.push_back(it->path());
  }
  std::ranges::sort(found);
  return found;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(64, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

/// The commits of the branches and tags of a repository.
std::map<std::string, std::string> refs_of(const fs::path& folder) {
  std::map<std::string, std::string> refs;
  const fs::path top = folder / "refs";
  for_each_file(top, [&](const fs::path& path) {
    if (path.extension() != ".tmp") refs[path.lexically_relative(top).string()] = content_of(path);
  });
  return refs;
}

bool is_part(const fs::path& path) {
  return path.extension() == ".vitrine-part" || path.extension() == ".ranges" || path.extension() == ".incomplete";
}

/// The bytes that a blob takes from the disk; a link into the store that repositories share takes none of its own.
std::int64_t bytes_of(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return is_part(path) ? part_bytes(path.string()) : status.st_size;
}

/// The blobs that the links of a revision lead to, by the name of the link's target.
std::set<std::string> blobs_of(const fs::path& revision) {
  std::set<std::string> blobs;
  for_each_file(revision, [&](const fs::path& path) {
    std::error_code error;
    const fs::path target = fs::read_symlink(path, error);
    const std::string name = target.filename().string();
    const bool is_hash =
        (name.size() == 40 || name.size() == 64) && name.find_first_not_of("0123456789abcdef") == name.npos;
    if (!error && is_hash) blobs.insert(name);  // anything else is no blob
  });
  return blobs;
}

StoredModel read_model(const fs::path& folder, const std::string& name) {
  StoredModel model;
  model.name = name;
  for_each_file(folder / "blobs", [&](const fs::path& path) {
    std::error_code error;
    if (is_part(path)) {
      model.part_bytes += bytes_of(path);
    } else if (fs::is_regular_file(path, error)) {
      model.bytes += static_cast<std::int64_t>(fs::file_size(path, error));
    }
  });
  const auto refs = refs_of(folder);
  for (const fs::path& snapshot : folders_in(folder / "snapshots")) {
    StoredRevision revision{snapshot.filename().string(), {}, {}};
    for (const auto& [ref, commit] : refs) {
      if (commit == revision.commit) revision.refs.push_back(ref);
    }
    for_each_file(snapshot,
                  [&](const fs::path& path) { revision.files.push_back(path.lexically_relative(snapshot).string()); });
    std::ranges::sort(revision.files);
    model.revisions.push_back(std::move(revision));
  }
  return model;
}

/// Throws if another process has a lock of the repository.
void check_unlocked(const std::string& cache, const std::string& repository) {
  for_each_file(lock_folder(cache, repository), [&](const fs::path& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return;
    const bool is_free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    ::close(fd);
    if (!is_free) throw BadInput(repository, "another process is fetching it ({})", path.string());
  });
}

}  // namespace

std::string hub_cache_folder() { return HubSettings::from_environment().cache; }

std::vector<StoredModel> stored_models(const std::string& cache) {
  constexpr std::string_view kBegin = "models--";
  std::vector<StoredModel> models;
  for (const fs::path& folder : folders_in(cache)) {
    std::string name = folder.filename().string();
    if (!name.starts_with(kBegin)) continue;
    name.erase(0, kBegin.size());
    if (const std::size_t at = name.find("--"); at != name.npos) name.replace(at, 2, "/");
    models.push_back(read_model(folder, name));
  }
  return models;
}

StoredDeletion plan_deletion(const std::string& cache, const std::string& given) {
  std::string name = given.starts_with("hf:") ? given.substr(3) : given, revision;
  if (const std::size_t at = name.find('@'); at != name.npos) {
    revision = name.substr(at + 1);
    name.resize(at);
  }
  const std::vector<StoredModel> models = stored_models(cache);
  const auto model = std::ranges::find(models, name, &StoredModel::name);
  if (model == models.end()) {
    std::vector<std::string> names;
    for (const StoredModel& m : models) names.push_back(m.name);
    throw BadInput(given, "it is not in the cache {}{}", cache, did_you_mean(name, names));
  }
  check_unlocked(cache, name);
  const fs::path folder = fs::path(cache) / repository_folder(name);
  for (const fs::path& part : {folder, folder / "blobs", folder / "snapshots", folder / "refs", folder / "trees"}) {
    if (fs::is_symlink(part)) throw BadInput(given, "{} is a link: nothing is deleted through it", part.string());
  }
  StoredDeletion deletion;
  const auto take = [&](const fs::path& path) {
    deletion.bytes += bytes_of(path);
    deletion.paths.push_back(path.string());
  };
  const auto is_meant = [&](const StoredRevision& r) {
    return r.commit == revision || std::ranges::count(r.refs, revision) > 0;
  };
  const auto meant = std::ranges::find_if(model->revisions, is_meant);
  if (!revision.empty() && meant == model->revisions.end()) {
    throw BadInput(given, "the cache has no revision \"{}\" of {}", revision, name);
  }
  if (revision.empty() || model->revisions.size() == 1) {
    for_each_file(folder / "blobs", [&](const fs::path& path) { deletion.bytes += bytes_of(path); });
    deletion.paths = {folder.string(), lock_folder(cache, name)};
    return deletion;
  }
  for (const std::string& ref : meant->refs) take(folder / "refs" / ref);
  std::set<std::string> used;
  for (const StoredRevision& r : model->revisions) {
    if (r.commit != meant->commit) used.merge(blobs_of(folder / "snapshots" / r.commit));
  }
  take(folder / "snapshots" / meant->commit);
  take(folder / "trees" / (meant->commit + ".json"));
  for (const std::string& blob : blobs_of(folder / "snapshots" / meant->commit)) {
    if (!used.contains(blob)) take(folder / "blobs" / blob);
  }
  return deletion;
}

void delete_stored(const StoredDeletion& deletion) {
  for (const std::string& path : deletion.paths) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) throw BadInput(path, "cannot be deleted: {}", error.message());
  }
}

}  // namespace vitrine
