// Fetches one file of a repository.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "base/digest.h"
#include "hub/part_file.h"
#include "hub/repository.h"

namespace vitrine {

/// Fetches what a part lacks, in several ranges at a time, and computes the hash of the whole while it arrives. A range
/// whose connection fails, stalls or ends early goes on where it stopped; a link that has expired is resolved again;
/// from a server without ranges the file comes in one stream.
class Download {
 public:
  using Report = std::function<void(std::int64_t present)>;

  Download(HttpClient& http, const HubRepository& repository, std::string commit, const RemoteFile& file,
           PartFile& part, int jobs);
  /// Returns the hash of the content, which is then complete. Throws as HubRepository does, and as PartFile; what has
  /// arrived by then is synced.
  std::string run(const Report& report);
  /// Bytes that have arrived over the network.
  std::int64_t fetched() const { return fetched_; }

 private:
  struct NoRanges {};
  struct Segment {
    ByteRange rest;
    std::string link;
    bool takes = false;  // the answer has the content
  };

  void fetch();
  void start(ByteRange range);
  void end(const HttpResult& result);
  void take_head(Segment& segment, const HttpHead& head);
  void take_body(Segment& segment, std::span<const std::byte> bytes);
  void hash_what_is_present();
  void sync_if_due();
  std::string where() const { return repository_.name().text() + ", " + file_.path; }

  HttpClient& http_;
  const HubRepository& repository_;
  std::string commit_;
  const RemoteFile& file_;
  PartFile& part_;
  int jobs_;
  Report report_{};
  std::string link_{};
  Digest digest_;
  std::int64_t hashed_ = 0;  // bytes from the start that are in digest_
  std::int64_t fetched_ = 0;
  bool has_ranges_ = true;
  std::deque<ByteRange> waiting_{};
  std::map<std::uint64_t, Segment> active_{};
  int failures_ = 0;                      // since the part has grown
  std::int64_t present_at_failure_ = -1;  // bytes of the part at the last of them
  std::chrono::steady_clock::time_point not_before_{}, next_sync_{};
};

}  // namespace vitrine
