// What a hub says of a repository: its commit and its files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/exceptions.h"
#include "hub/http.h"
#include "hub/name.h"

namespace vitrine {

/// A file of a repository at a commit.
struct RemoteFile {
  std::string path;
  std::int64_t size = 0;
  std::string blob_id;                  ///< Git's SHA-1; of a large file, that of its pointer.
  std::optional<std::string> sha256{};  ///< Of the content of a large file.

  /// The name of its blob in the cache, which is the hash of its content.
  const std::string& etag() const { return sha256 ? *sha256 : blob_id; }
  /// The digest of that hash.
  Digest digest() const { return sha256 ? Digest::sha256() : Digest::git_blob(size); }
};

/// The hub cannot be reached, or it has failed: what is in the cache may be enough.
class HubUnreachable : public Error {
 public:
  using Error::Error;
};

/// Asks a hub. Each call is made again after failures that may pass. Throws HubUnreachable, and BadInput for what the
/// hub refuses: the message says whether the name is wrong, a token is missing or the terms must be accepted.
class HubRepository {
 public:
  /// A request that fails is made again up to `most_retries` times.
  HubRepository(HttpClient& http, const HubSettings& settings, const HubName& name, int most_retries)
      : http_(http), settings_(settings), name_(name), most_retries_(most_retries) {}

  /// The commit of the name's revision.
  std::string commit() const;
  /// All files at a commit. Their paths are inside the repository and appear once.
  std::vector<RemoteFile> files(const std::string& commit) const;
  /// The content of a small file, which has the hash that the hub gives.
  std::string read(const std::string& commit, const RemoteFile& file) const;
  /// The bytes of a range of a file, without a check of their hash. A server without ranges is read up to the range's
  /// end.
  std::string read(const std::string& commit, const RemoteFile& file, ByteRange range) const;
  /// Where the content of a file can be fetched: the hub itself, or a link to another host that is valid for a while.
  std::string link(const std::string& commit, const RemoteFile& file) const;

  /// Checks what an answer of the hub itself says of a file: commit, etag and size. Throws BadInput if it is another.
  void check_head(const HttpHead& head, const std::string& commit, const RemoteFile& file) const;
  /// Throws for an answer that is no success.
  [[noreturn]] void refuse(const HttpResult& result, const std::string& what) const;
  const HubName& name() const { return name_; }
  std::string url(const std::string& commit, const std::string& path) const;

 private:
  HttpResult ask(HttpRequest request, const std::string& what, std::string* body, std::size_t most) const;

  HttpClient& http_;
  const HubSettings& settings_;
  const HubName& name_;
  int most_retries_;
};

}  // namespace vitrine
