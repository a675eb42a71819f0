#include "serve/ollama/times.h"

#include <fmt/format.h>

#include <ctime>

namespace vitrine::ollama {

Durations durations_of(ServerClock::time_point start, const JobTimes& times) {
  const ServerClock::time_point end = times.ended.value_or(ServerClock::now());
  const ServerClock::time_point begin = times.admitted.value_or(end), first = times.first_token.value_or(end);
  return {.total = end - start, .load = begin - start, .prompt = first - begin, .text = end - first};
}

std::string time_text(std::chrono::system_clock::time_point time) {
  const auto micros = std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = micros / 1'000'000;
  std::tm date{};
  ::gmtime_r(&seconds, &date);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday,
                     date.tm_hour, date.tm_min, date.tm_sec, micros % 1'000'000);
}

}  // namespace vitrine::ollama
