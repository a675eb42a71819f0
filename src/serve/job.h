// A request at the scheduler: its sequences on the way in, steps of the engine on the way out.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "generate/engine.h"

namespace vitrine {

using ServerClock = std::chrono::steady_clock;

/// When what happened to a job.
struct JobTimes {
  ServerClock::time_point submitted = ServerClock::now();
  std::optional<ServerClock::time_point> admitted, first_token;
  std::optional<ServerClock::time_point> ended;  ///< The last of its sequences that has ended so far.
};

/// Shared by the scheduler, which reports steps, and by the thread that answers the client, which takes them.
class Job {
 public:
  /// Above so many untaken steps of a stream the scheduler pauses its sequences.
  static constexpr std::size_t kMaxSteps = 64;

  /// `client`: the number of its API key. Unless it streams, only results and errors are reported. `notify` is called
  /// on the scheduler's thread after each report.
  Job(std::size_t client, std::vector<GenerateRequest> sequences, bool streams, std::function<void()> notify);

  std::size_t client() const { return client_; }
  /// Of its sequences while they wait.
  std::int64_t waiting_bytes() const { return waiting_bytes_; }
  bool streams() const { return streams_; }
  std::size_t n_sequences() const { return sequences_.size(); }
  /// Ends its work within a round. No further step is reported.
  void cancel() { cancelled_ = true; }
  bool is_cancelled() const { return cancelled_; }

  /// The steps since the last call, whose ids are numbers of sequences.
  std::vector<SequenceStep> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(steps_, {});
  }
  std::size_t n_steps() const {
    const std::lock_guard lock(mutex_);
    return steps_.size();
  }
  JobTimes times() const {
    const std::lock_guard lock(mutex_);
    return times_;
  }

  /// For the scheduler: the request of a sequence, which can be taken once.
  GenerateRequest take_sequence(std::size_t number) { return std::move(sequences_[number]); }
  const GenerateRequest& sequence(std::size_t number) const { return sequences_[number]; }
  void report(SequenceStep step);
  void mark_admitted();

 private:
  std::size_t client_;
  bool streams_;
  std::vector<GenerateRequest> sequences_;
  std::int64_t waiting_bytes_ = 0;
  std::function<void()> notify_;
  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;
  std::vector<SequenceStep> steps_;
  JobTimes times_;
};

}  // namespace vitrine
