// The cache of huggingface_hub on disk, which both read and write.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hub/repository.h"

namespace vitrine {

/// models--ORG--NAME/ with blobs/ETAG, refs/REVISION, snapshots/COMMIT/PATH (links to blobs) and trees/COMMIT.json.
/// Blobs may be links into blobs/ of the cache, which its repositories share. Nothing is read or written through a link
/// that leaves the cache: BadInput. Throws BadInput and OutOfCapacity for what cannot be written.
class HubCache {
 public:
  HubCache(std::string root, std::string repository);

  const std::string& root() const { return root_; }
  const std::string& repository() const { return repository_; }
  const std::string& folder() const { return folder_; }
  std::string blob(const std::string& etag) const { return folder_ + "/blobs/" + etag; }
  std::string part(const std::string& etag) const { return blob(etag) + ".vitrine-part"; }
  std::string snapshot(const std::string& commit) const { return folder_ + "/snapshots/" + commit; }

  /// The commit of a revision: itself, or what refs/ has; nothing if it is not known.
  std::optional<std::string> commit_of(const std::string& revision) const;
  /// The files at a commit that are known without the hub: those of trees/COMMIT.json, else those that are there.
  std::vector<RemoteFile> files(const std::string& commit) const;
  /// Whether trees/COMMIT.json is there, which has all files of the commit.
  bool has_tree(const std::string& commit) const;
  void write_tree(const std::string& commit, const std::vector<RemoteFile>& files) const;
  void write_ref(const std::string& revision, const std::string& commit) const;

  /// Whether the snapshot has the file.
  bool has_file(const std::string& commit, const RemoteFile& file) const;
  bool has_blob(const RemoteFile& file) const;
  /// Makes the snapshot's link to the blob.
  void link(const std::string& commit, const RemoteFile& file) const;
  /// Makes the folders of the cache, and marks it as a cache for programs that make backups.
  void prepare() const;

 private:
  /// `path`, which is inside the cache, whatever links are on the way.
  const std::string& inside(const std::string& path) const;
  void make_folder(const std::string& path) const;
  std::string tree_path(const std::string& commit) const { return folder_ + "/trees/" + commit + ".json"; }

  std::string root_, repository_, folder_;
};

/// Of one blob, for all programs that write into the cache. Waiting calls `poll` regularly.
class HubLock {
 public:
  HubLock(const HubCache& cache, const std::string& etag, const std::function<void()>& poll);
  HubLock(const HubLock&) = delete;
  HubLock& operator=(const HubLock&) = delete;
  ~HubLock();

 private:
  int fd_ = -1;
};

/// The folder of a repository's locks.
std::string lock_folder(const std::string& root, const std::string& repository);
/// ORG/NAME as models--ORG--NAME.
std::string repository_folder(const std::string& repository);

}  // namespace vitrine
