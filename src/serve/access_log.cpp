#include "serve/access_log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "serve/request_fields.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxPath = 256;  // so that a line fits into a pipe that can be written

/// Milliseconds, to the microsecond.
double ms_between(ServerClock::time_point from, ServerClock::time_point to) {
  return std::round(std::chrono::duration<double, std::micro>(to - from).count()) / 1000;
}

}  // namespace

std::string AccessRecord::line(ServerClock::time_point now) const {
  nlohmann::ordered_json json = {
      {"request_id", request_id}, {"method", method}, {"path", path.substr(0, kMaxPath)}, {"status", status}};
  if (!model.empty()) json["model"] = model.substr(0, kMaxPath);
  if (usage) {
    json["prompt_tokens"] = usage->prompt_tokens;
    json["cached_tokens"] = usage->cached_tokens;
    json["completion_tokens"] = usage->completion_tokens;
  }
  if (times && times->admitted) json["queue_ms"] = ms_between(times->submitted, *times->admitted);
  if (times && times->first_token) json["first_token_ms"] = ms_between(start, *times->first_token);
  json["total_ms"] = ms_between(start, now);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

AccessLog::AccessLog(const std::string& path) : file_(STDERR_FILENO) {
  if (path.empty()) return;
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (file_ < 0) throw BadInput(path, "cannot be opened: {}", std::strerror(errno));
}

AccessLog::~AccessLog() {
  if (file_ != STDERR_FILENO) ::close(file_);
}

void AccessLog::write(const AccessRecord& record) const {
  const std::string line = record.line(ServerClock::now()) + "\n";
  pollfd polled{file_, POLLOUT, 0};
  if (::poll(&polled, 1, 0) != 1) return;  // a pipe that nobody reads must not stop the server
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(file_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace vitrine
