// How the files of a hub are reached: what a caller decides, and what it is told.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace vitrine {

/// The state of a pull. Bytes that were in the cache before count as done.
struct HubProgress {
  enum class Event {
    begin,  ///< A file is about to be fetched.
    bytes,  ///< Some of it has arrived.
    end,    ///< It is complete and in the cache.
    note    ///< `text` is one line that the user should know.
  };
  Event event = Event::bytes;
  std::string text{};                        ///< The file, as ORG/NAME calls it.
  std::int64_t done = 0, total = 0;          ///< Bytes of the file.
  std::int64_t all_done = 0, all_total = 0;  ///< Bytes of all files of the pull.
};

/// Both functions run on the thread that makes the call, and an exception that they throw ends it. What has been
/// fetched up to then stays in the cache as a part.
struct HubAccess {
  bool offline = false;  ///< Uses the cache alone. HF_HUB_OFFLINE does the same.
  int jobs = 4;          ///< Ranges of a large file that are fetched at the same time.
  std::function<void(const HubProgress&)> report{};
  std::function<void()> poll{};  ///< Called about ten times a second, to look for signals.
  /// Called before weights are fetched, with the path of what would be opened: the configs and files
  /// of weights of their full size, which have only their headers. It throws if the model is not wanted.
  std::function<void(const std::string& path)> check{};
};

}  // namespace vitrine
