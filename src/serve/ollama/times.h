// Times as Ollama's interface has them.
#pragma once

#include <chrono>
#include <string>

#include "serve/job.h"

namespace vitrine::ollama {

/// How long the parts of a response took.
struct Durations {
  std::chrono::nanoseconds total{};   ///< From the request to the end of its work.
  std::chrono::nanoseconds load{};    ///< Until the work began: of parsing the request, and in the queue.
  std::chrono::nanoseconds prompt{};  ///< From there to the first token, or to the end without one.
  std::chrono::nanoseconds text{};    ///< From there to the end.
};
/// Of a request that came at `start`; work that has not ended ends now.
Durations durations_of(ServerClock::time_point start, const JobTimes& times);

/// A time as RFC 3339 has it, in UTC, with microseconds.
std::string time_text(std::chrono::system_clock::time_point time);

}  // namespace vitrine::ollama
