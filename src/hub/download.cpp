#include "hub/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace vitrine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kSmallest = kMiB, kLargest = 64 * kMiB;  // of a range
constexpr std::int64_t kHashPiece = kMiB;

/// The first byte and the size of the file that `Content-Range: bytes FIRST-LAST/SIZE` gives.
std::optional<std::pair<std::int64_t, std::int64_t>> content_range(const HttpHead& head, std::int64_t expected) {
  const std::string* const field = head.find("content-range");
  if (field == nullptr || !field->starts_with("bytes ")) return std::nullopt;
  const std::string_view text = std::string_view(*field).substr(6);
  const std::size_t dash = text.find('-'), slash = text.find('/');
  if (dash == text.npos || slash == text.npos || slash < dash) return std::nullopt;
  const auto first = number_in<std::int64_t>(text.substr(0, dash)),
             size = text.substr(slash + 1) == "*" ? expected : number_in<std::int64_t>(text.substr(slash + 1));
  if (!first || !size) return std::nullopt;
  return std::pair(*first, *size);
}

}  // namespace

Download::Download(HttpClient& http, const HubRepository& repository, std::string commit, const RemoteFile& file,
                   PartFile& part, int jobs)
    : http_(http),
      repository_(repository),
      commit_(std::move(commit)),
      file_(file),
      part_(part),
      jobs_(std::max(1, jobs)),
      digest_(file.digest()) {}

std::string Download::run(const Report& report) {
  report_ = report;
  try {
    hash_what_is_present();
    fetch();
    hash_what_is_present();
  } catch (...) {
    http_.cancel_all();
    try {
      part_.sync();
    } catch (const Error&) {  // the disk is full: what has been synced before stays
    }
    throw;
  }
  return digest_.finish();
}

void Download::fetch() {
  const std::int64_t n_missing = file_.size - part_.present().total();
  const std::int64_t piece = std::clamp(n_missing / (4 * jobs_) + 1, kSmallest, kLargest);
  for (const ByteRange& range : part_.present().missing(file_.size, jobs_ == 1 ? file_.size : piece)) {
    waiting_.push_back(range);
  }
  if (waiting_.empty()) return;
  link_ = repository_.url(commit_, file_.path);
  if (file_.size > kSmallest) link_ = repository_.link(commit_, file_);
  while (!waiting_.empty() || !active_.empty()) {
    const std::size_t most = has_ranges_ ? static_cast<std::size_t>(jobs_) : 1;
    while (!waiting_.empty() && active_.size() < most && Clock::now() >= not_before_) {
      const ByteRange range = waiting_.front();
      waiting_.pop_front();
      start(range);
    }
    for (const HttpResult& result : http_.run(std::chrono::milliseconds(100))) end(result);
  }
}

void Download::start(ByteRange range) {
  HttpRequest request{link_};
  if (has_ranges_) request.range = range;
  // The functions run after start() has returned, when the id is known.
  const auto id = std::make_shared<std::uint64_t>(0);
  request.on_head = [this, id](const HttpHead& head) { take_head(active_.at(*id), head); };
  request.on_body = [this, id](std::span<const std::byte> bytes) { take_body(active_.at(*id), bytes); };
  *id = http_.start(std::move(request));
  active_[*id] = {range, link_};
}

void Download::take_head(Segment& segment, const HttpHead& head) {
  repository_.check_head(head, commit_, file_);
  if (head.status == 416) throw BadCheckpoint(where(), "expected {} bytes, the server has fewer", file_.size);
  if (head.status == 206 && has_ranges_) {
    const auto range = content_range(head, file_.size);
    if (!range || range->first != segment.rest.begin) {
      throw BadInput(where(), "asked for the bytes from {} on, got others", segment.rest.begin);
    }
    if (range->second != file_.size) {
      throw BadCheckpoint(where(), "expected {} bytes, the server has {}", file_.size, range->second);
    }
    segment.takes = true;
  } else if (head.status == 200) {
    const bool is_whole = segment.rest == ByteRange{0, file_.size};
    if (!is_whole) throw NoRanges();
    const std::string* const length = head.find("content-length");
    if (length != nullptr && number_in<std::int64_t>(*length) != file_.size) {
      throw BadCheckpoint(where(), "expected {} bytes, the server has {}", file_.size, *length);
    }
    segment.takes = true;
  }
}

void Download::take_body(Segment& segment, std::span<const std::byte> bytes) {
  if (!segment.takes) return;
  fetched_ += static_cast<std::int64_t>(bytes.size());
  if (static_cast<std::int64_t>(bytes.size()) > segment.rest.size()) {
    throw BadCheckpoint(where(), "expected {} bytes, the server sends more", file_.size);
  }
  std::int64_t begin = segment.rest.begin;
  segment.rest.begin += static_cast<std::int64_t>(bytes.size());
  if (begin < hashed_) {  // one stream, of a file whose first bytes are present
    const std::int64_t known = std::min<std::int64_t>(hashed_ - begin, static_cast<std::int64_t>(bytes.size()));
    bytes = bytes.subspan(static_cast<std::size_t>(known));
    begin += known;
  }
  if (!bytes.empty()) {
    part_.write(begin, bytes);
    if (begin == hashed_) {
      digest_.update(bytes);
      hashed_ += static_cast<std::int64_t>(bytes.size());
      hash_what_is_present();
    }
  }
  sync_if_due();
  if (report_) report_(part_.present().total());
}

void Download::hash_what_is_present() {
  std::vector<std::byte> piece;
  for (std::int64_t end = part_.present().end_of(hashed_); hashed_ < end;) {
    piece.resize(static_cast<std::size_t>(std::min(kHashPiece, end - hashed_)));
    part_.read(hashed_, piece);
    digest_.update(piece);
    hashed_ += static_cast<std::int64_t>(piece.size());
    http_.poll();
    if (report_) report_(part_.present().total());
  }
}

void Download::sync_if_due() {
  // At most a fifth of the time goes into syncing, and at most a second's bytes are lost.
  if (part_.unsynced() < kMiB / 2 || Clock::now() < next_sync_) return;
  const auto begun = Clock::now();
  part_.sync();
  next_sync_ = Clock::now() + std::clamp<Clock::duration>(4 * (Clock::now() - begun), std::chrono::milliseconds(10),
                                                          std::chrono::seconds(1));
}

void Download::end(const HttpResult& result) {
  const auto it = active_.find(result.id);
  if (it == active_.end()) return;  // canceled when a server without ranges was found
  const ByteRange rest = it->second.rest;
  const bool took = it->second.takes;
  const std::string link = it->second.link;
  active_.erase(it);
  if (result.error) {
    try {
      std::rethrow_exception(result.error);
    } catch (const NoRanges&) {
      http_.cancel_all();
      active_.clear();
      waiting_.assign(1, {0, file_.size});
      has_ranges_ = false;
      return;
    }
  }
  if (took && result.failure.empty() && rest.size() == 0) return;
  HttpResult seen = result;
  if (took && seen.failure.empty()) seen.failure = "the answer ended early";
  const std::int64_t present = part_.present().total();
  const bool is_first = Clock::now() >= not_before_;  // several ranges fail at once, for the same reason
  if (is_first) failures_ = present > present_at_failure_ ? 0 : failures_ + 1;
  present_at_failure_ = present;
  const int status = seen.head.status;
  waiting_.push_front(has_ranges_ ? rest : ByteRange{0, file_.size});
  const bool has_expired =
      !took && seen.failure.empty() && (status == 403 || status == 410) && !http_.is_endpoint(seen.head.url);
  if (has_expired && link != link_) return;  // another range has found that, too
  auto delay = retry_delay(seen, failures_);
  if (has_expired && failures_ < 4) delay = std::chrono::milliseconds(0);
  if (!delay) repository_.refuse(seen, file_.path);
  not_before_ = std::max(not_before_, Clock::now() + *delay);
  if (has_expired) link_ = repository_.link(commit_, file_);
}

}  // namespace vitrine
