// Divides the work of a model's requests into rounds, each of which is one forward of its engine: continuous batching
// (Orca's iteration-level scheduling) with chunked prefill. A round is what vLLM calls a step. Rounds of several models
// take turns (round_loop.h).
//
//   admission   the sequence whose API key has the fewest running sequences, then whose request has, then the oldest;
//               if there is memory for its prompt
//   a round     the next token of every running sequence, then chunks of prompts within a budget of rows
//
// Requests for vectors are sequences like others. A model that reads its texts at once, such as an encoder, has no
// other requests: there a round is texts of all clients (next_text_round), whose tasks take turns to be the first.
//
// A sequence has the same tokens in any company, so all of this decides only when a client gets its answer.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "generate/engine.h"
#include "serve/job.h"
#include "serve/metrics.h"
#include "serve/round_budget.h"
#include "serve/text_task.h"

namespace vitrine {

class RoundLoop;

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
  /// The KV caches are in `memory` instead of the context's. Keeps references to it, to `metrics` and to `loop`, which
  /// runs the rounds once the scheduler has been added to it.
  Scheduler(const GenerateContext& context, KvPool& memory, const SchedulerConfig& config, Metrics& metrics,
            RoundLoop& loop);

  /// These may be called on any thread.

  /// Throws RequestError if the queue is full, if the server is shutting down, for a sequence whose KV cache alone
  /// exceeds the memory, and for a constraint whose shortest answer is longer than a sequence may be.
  void submit(std::shared_ptr<Job> job);
  void submit(std::shared_ptr<TextTask> task);
  /// Throws RequestError as submit() does, before there is a job. `bytes`: of what is to wait.
  void check_space(std::size_t client, std::int64_t bytes = 0) const;
  /// Looks at the jobs again: one has been cancelled, or steps of a paused one have been taken.
  void wake();
  /// Accepts no more work. `ends_all`: prepare() also ends what has been accepted.
  void drain(bool ends_all);

  /// These are for the loop's thread.

  /// Takes what has been submitted, forgets what has been cancelled, and admits sequences. Returns whether there is
  /// something to compute.
  bool prepare();
  /// The clients whose work turn() would do.
  std::vector<std::size_t> clients() const;
  /// The number of sequences that wait for their next token.
  std::int64_t n_decoding() const { return engine_.n_decoding(); }
  /// Runs a round of sequences, and some texts of a task.
  void turn(const RoundShare& share);
  /// Whether it accepts no more work and has none.
  bool has_ended() const;

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
  void accept(std::shared_ptr<Work> work, std::vector<std::shared_ptr<Work>>& submitted);
  template <class Work>
  void count_waiting(const Work& work, int change);
  void check_space_locked(std::size_t client, std::int64_t bytes) const;
  void take_submitted();
  void drop_cancelled();
  void update_pauses();
  std::size_t n_active() const;
  std::string owner_of(const Job& job, const GenerateRequest& request) const;
  void admit();
  Entry* next_entry();
  void start(Entry& entry);
  void round(const RoundShare& share);
  void encode_some(const RoundShare& share);
  void end_task(std::shared_ptr<TextTask> task);
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
  RoundLoop& loop_;
  Engine engine_;
  RoundBudget budget_;
  std::list<Entry> entries_;                    // in the order of their arrival
  std::int64_t store_hits_ = 0;                 // of the prefix store, that the metrics have
  std::list<std::shared_ptr<TextTask>> tasks_;  // in the order of their turns
  std::map<std::uint64_t, Running> running_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Job>> submitted_;
  std::vector<std::shared_ptr<TextTask>> submitted_tasks_;
  std::map<std::size_t, int> n_waiting_;  // of a client: submitted or without a running sequence so far
  std::int64_t waiting_bytes_ = 0;
  std::chrono::seconds last_wait_{1};  // of the request that was last admitted, from 1 s to a minute
  bool is_draining_ = false, is_stopping_ = false;
};

}  // namespace vitrine
