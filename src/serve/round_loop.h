// Rounds of several models on one thread, which owns their thread pool.
//
// Each model has its scheduler. The next round is that of the API key that has had the least time, and of its models
// the one whose last round is the oldest; the key pays for it. So a key that asks several models has no more time than
// one that asks a single one, and rounds of models alternate. A key that comes back begins where the others are.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace vitrine {

class Scheduler;

/// Which of several models has the next round.
class RoundTurns {
 public:
  /// A model with work: a key of a client whose work it is, one entry for each.
  struct Claim {
    std::size_t model, client;
    std::uint64_t last_turn;  ///< Of the model: greater is later; 0: none yet.
  };
  /// The claim whose turn it is. `claims` are all that there are, at least one.
  Claim next(std::span<const Claim> claims);
  /// The client has had a round of `seconds`.
  void charge(std::size_t client, double seconds) { seconds_of_[client] += seconds; }

 private:
  std::map<std::size_t, double> seconds_of_;
  double least_ = 0;  // of the clients that had work last
};

class RoundLoop {
 public:
  RoundLoop() = default;
  RoundLoop(const RoundLoop&) = delete;
  RoundLoop& operator=(const RoundLoop&) = delete;

  /// These may be called on any thread.

  void add(std::shared_ptr<Scheduler> scheduler);
  /// Ends what is left of the scheduler's work. On return no round uses it, which is after one round at most. Not to be
  /// called from run().
  void remove(const std::shared_ptr<Scheduler>& scheduler);
  /// Looks at the schedulers again.
  void wake();
  /// No scheduler accepts work any more; run() returns when all of it has ended.
  void drain();
  /// Also ends what has not.
  void stop();

  /// Runs rounds until drain() or stop() and the end of all work. The calling thread owns the schedulers' pool.
  void run();

 private:
  struct Member {
    std::shared_ptr<Scheduler> scheduler;
    std::uint64_t last_turn = 0;
  };

  void let_go();
  std::vector<Scheduler*> members();
  bool wait();
  void turn(const std::vector<Scheduler*>& ready);

  std::mutex mutex_;
  std::condition_variable changed_, has_let_go_;
  bool has_changed_ = false, is_running_ = false, is_draining_ = false, is_stopping_ = false;
  std::vector<Member> members_;  // changed under the mutex; last_turn is the loop's
  std::vector<std::shared_ptr<Scheduler>> leaving_;
  std::uint64_t n_turns_ = 0;
  RoundTurns turns_;
};

}  // namespace vitrine
