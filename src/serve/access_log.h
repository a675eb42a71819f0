// One JSON object on a line for each request: what was asked and how long it took, never texts or keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "serve/completion_reply.h"
#include "serve/job.h"

namespace vitrine {

struct AccessRecord {
  std::string request_id, method, path;
  std::string model;           ///< That answers it; "": none.
  int status = 0;              ///< 499: the client disconnected before the end of the response.
  std::optional<Usage> usage;  ///< Of requests for texts and vectors.
  std::optional<JobTimes> times;
  ServerClock::time_point start = ServerClock::now();

  /// The line, without its end.
  std::string line(ServerClock::time_point now) const;
};

class AccessLog {
 public:
  /// Appends to the file at `path`; "": writes to stderr. Throws BadInput if the file cannot be opened.
  explicit AccessLog(const std::string& path);
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;
  ~AccessLog();

  /// Writes a line. Lines that cannot be written at once are lost.
  void write(const AccessRecord& record) const;

 private:
  int file_;
};

}  // namespace vitrine
