// Divides the work of all requests into rounds, each of which is one forward of the engine: continuous batching (Orca's
// iteration-level scheduling) with chunked prefill. A round is what vLLM calls a step.
//
//   admission   the sequence whose API key has the fewest running sequences, then whose request has, then the oldest;
//               if there is memory for its prompt
//   a round     the next token of every running sequence, then chunks of prompts within a budget of rows
//
// Requests for vectors are sequences like others. A model that reads its texts at once, such as an encoder, has no
// other requests: there a round is some texts of an EncodeTask, such tasks in turn.
//
// A sequence has the same tokens in any company, so all of this decides only when a client gets its answer.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "generate/engine.h"
#include "serve/job.h"
#include "serve/metrics.h"

namespace vitrine {

/// How many rows a round may have, so that it takes about a given time.
/// Follows the speed of the machine: a round that was full and took twice the time halves the next one.
class RoundBudget {
 public:
  explicit RoundBudget(double seconds) : seconds_(seconds) {}

  /// Of a round in which `n_decoding` sequences get their next token: these rows come first, and prompts have at least
  /// one row. Without them there is nobody whom a long round would keep waiting.
  std::int64_t rows(std::int64_t n_decoding) const {
    if (n_decoding == 0) return kMax;
    return std::max(n_decoding + 1, static_cast<std::int64_t>(rows_));
  }
  /// A round had `rows` rows, prompts among them, and took `seconds`.
  void measure(std::int64_t rows, double seconds) {
    const auto n = static_cast<double>(rows);
    const double change = std::clamp(seconds_ / std::max(seconds, 1e-6), 0.1, 2.0);
    const bool was_full = n >= 0.75 * rows_;
    if (was_full || change < 1) rows_ = std::clamp(std::min(n, 2 * rows_) * change, 1.0, static_cast<double>(kMax));
  }

 private:
  static constexpr std::int64_t kMax = 1024;

  double seconds_;
  double rows_ = 64;
};

struct SchedulerConfig {
  std::size_t max_sequences = 32;  ///< That run at a time; those that are paused do not count.
  std::size_t max_queue = 4096;    ///< Requests of a client that wait for their first sequence to run.
  std::int64_t max_queue_bytes = std::int64_t{256} << 20;  ///< Of all requests that wait.
  double round_seconds = 0.25;                             ///< Of a round while a sequence decodes.
  /// The names of clients by their numbers, which a later server gives to the same ones: what one of them has read is
  /// kept for it alone. Empty: there is one client.
  std::vector<std::string> clients{};
};

class Scheduler {
 public:
  /// The KV caches are in `memory` instead of the context's. Keeps references to it and to `metrics`.
  Scheduler(const GenerateContext& context, KvPool& memory, const SchedulerConfig& config, Metrics& metrics);

  /// These may be called on any thread.

  /// Throws RequestError if the queue is full, if the server is shutting down, for a sequence whose KV cache alone
  /// exceeds the memory, and for a constraint whose shortest answer is longer than a sequence may be.
  void submit(std::shared_ptr<Job> job);
  void submit(std::shared_ptr<EncodeTask> task);
  /// Throws RequestError as submit() does, before there is a job. `bytes`: of what is to wait.
  void check_space(std::size_t client, std::int64_t bytes = 0) const;
  /// Looks at the jobs again: one has been cancelled, or steps of a paused one have been taken.
  void wake();
  /// Accepts no more jobs; run() returns when all have ended.
  void drain();
  /// Also ends those that have not.
  void stop();

  /// Runs rounds until drain() or stop() and the end of all jobs. The calling thread owns the context's pool.
  void run();

 private:
  struct Entry {
    std::shared_ptr<Job> job;
    std::size_t n_admitted = 0, n_ended = 0;
    std::vector<std::uint64_t> running{};  // ids of the engine
    bool is_paused = false;
  };
  struct Running {
    Entry* entry;
    std::size_t number;
    std::optional<ServerClock::time_point> last_token{};
  };

  void check_answer(const GenerateRequest& request) const;
  template <class Work>
  void count_submitted(const Work& work);
  template <class Work>
  void count_waiting(const Work& work, int change);
  bool wait();
  void take_submitted();
  void drop_cancelled();
  void update_pauses();
  std::size_t n_active() const;
  std::string owner_of(const Job& job, const GenerateRequest& request) const;
  void admit();
  Entry* next_entry();
  void start(Entry& entry);
  void round();
  void encode_some();
  void end_task(std::shared_ptr<EncodeTask> task);
  void deliver(SequenceStep step, ServerClock::time_point now);
  void end_sequence(std::uint64_t id);
  void end_entry(Entry& entry);
  void fail(Entry& entry, std::exception_ptr error);
  void fail_running(std::exception_ptr error);
  void fail_all();
  void update_gauges();

  GenerateContext context_;
  KvPool& memory_;
  SchedulerConfig config_;
  Metrics& metrics_;
  Engine engine_;
  RoundBudget budget_;
  std::list<Entry> entries_;                      // in the order of their arrival
  std::list<std::shared_ptr<EncodeTask>> tasks_;  // in the order of their turns
  std::map<std::uint64_t, Running> running_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_changed_ = false;
  std::vector<std::shared_ptr<Job>> submitted_;
  std::vector<std::shared_ptr<EncodeTask>> submitted_tasks_;
  std::map<std::size_t, int> n_waiting_;  // of a client: submitted or without a running sequence so far
  std::int64_t waiting_bytes_ = 0;
  std::chrono::seconds last_wait_{1};  // of the request that was last admitted, from 1 s to a minute
  bool is_draining_ = false, is_stopping_ = false;
};

}  // namespace vitrine
