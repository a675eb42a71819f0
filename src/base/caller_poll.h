// What a caller does regularly while a long call runs on its thread.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace vitrine {

/// Looks for signals, for example. A call polls wherever it checks whether it is interrupted.
class CallerPoll {
 public:
  /// Call it on the thread that makes the call. An exception of `function` ends the call and propagates to the caller.
  explicit CallerPoll(std::function<void()> function) : function_(std::move(function)) {}

  /// Makes the calling thread the caller.
  void claim() { caller_ = std::this_thread::get_id(); }

  /// Calls the function, at most every kInterval. On other threads, does nothing.
  void poll() {
    if (std::this_thread::get_id() != caller_) return;
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    function_();
    next_ = Clock::now() + kInterval;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kInterval{100};

  std::function<void()> function_;
  std::thread::id caller_ = std::this_thread::get_id();
  Clock::time_point next_ = Clock::now() + kInterval;
};

}  // namespace vitrine
