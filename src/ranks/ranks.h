// The processes (ranks) that share a run, and what they send to each other.
//
// Everything that travels is a message between two ranks. An operation of this header begins its messages and returns
// their Tickets, so that the caller can compute meanwhile:
//
//   Tickets tickets = ranks.gather(all, bounds, Channel::weights);   each rank's part of `all` reaches every rank
//   …
//   ranks.wait(tickets);
//
// A thread lets the messages proceed while the caller computes. It also sends a sign of life every 0.2 s: from rank 0
// to the others, and from them to rank 0. A rank from which none has arrived for the peer timeout is lost, and wait()
// throws. A rank that waits polls first, then sleeps for up to a millisecond at a time.
//
// A process that no launcher started is the only rank; its operations have no messages.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/exceptions.h"
#include "ranks/transport.h"

namespace vitrine {

/// Another rank has died, is silent, or cannot be reached. The run cannot continue.
class PeerLost : public Error {
 public:
  using Error::Error;
};

/// The run ends because of an error that another rank reports.
class ReportedElsewhere : public Error {
 public:
  ReportedElsewhere() : Error("another rank reports the error") {}
};

/// Messages of different channels may overtake each other.
enum class Channel : int { control, gradients, sums, weights, life };

/// More bytes are several messages: MPI counts bytes in an int.
constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 28;

/// Some messages under way. The memory that they send or fill must exist until they are done.
using Tickets = std::vector<std::shared_ptr<const Message>>;
inline void append(Tickets& all, const Tickets& more) { all.insert(all.end(), more.begin(), more.end()); }

class Ranks {
 public:
  /// The only rank.
  Ranks() = default;
  /// Throws PeerLost.
  Ranks(std::unique_ptr<Transport> transport, double peer_timeout_s);
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  bool is_alone() const { return size_ == 1; }
  /// The name of the machine on which a rank runs.
  const std::string& host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  /// "rank 2 on HOST", for messages.
  std::string name(int rank) const;

  /// Once `is_ending` is true, calls tell(text) if a rank does not answer: launchers ask all ranks to end when one has
  /// died, and kill them a second later. One rank tells. `tell` is called by another thread.
  void tell_of_the_dead(const std::atomic<bool>& is_ending, std::function<void(const std::string& text)> tell);
  /// Calls end(text) if a call of the transport does not return for 10 s, or once `is_ending` is true for 0.6 s: Open
  /// MPI 4.1 can repeat itself forever when a connection breaks. The text is empty if only the launcher knows which
  /// rank has died. `end` is called by another thread, and ends the process.
  void end_if_stuck(const std::atomic<bool>& is_ending, std::function<void(const std::string& text)> end);

  Tickets send(int to, std::span<const std::byte> bytes, Channel channel);
  Tickets receive(int from, std::span<std::byte> bytes, Channel channel);
  /// Rank r has bytes bounds[r] to bounds[r + 1] of `all`; every rank receives the others.
  Tickets gather(std::span<std::byte> all, std::span<const std::int64_t> bounds, Channel channel);

  bool is_done(const Tickets& tickets) const;
  /// Throws PeerLost if a rank is lost.
  void wait(const Tickets& tickets);

  /// After an error: no message proceeds any more, so that its memory can be freed. Only abort() may follow.
  void give_up();

  // The operations below also wait.

  /// Copies rank 0's bytes to all ranks.
  void broadcast(std::span<std::byte> bytes);
  /// Rank 0's text, on all ranks.
  std::string broadcast(const std::string& text);
  /// The values of all ranks, in their order; every rank gives as many.
  template <class T>
  std::vector<T> gather_values(std::span<const T> own) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(own.size() * static_cast<std::size_t>(size_));
    std::vector<std::int64_t> bounds;
    for (int r = 0; r <= size_; ++r) bounds.push_back(r * static_cast<std::int64_t>(own.size_bytes()));
    std::copy(own.begin(), own.end(), all.begin() + rank_ * static_cast<std::ptrdiff_t>(own.size()));
    wait(gather(std::as_writable_bytes(std::span(all)), bounds, Channel::control));
    return all;
  }

  /// Returns work(), or throws on all ranks if it throws on any: rank 0 the error, which names the rank if it is
  /// another one, and the others ReportedElsewhere. `work` must not communicate.
  template <class Work>
  auto together(Work&& work) {
    using Result = std::conditional_t<std::is_void_v<std::invoke_result_t<Work>>, bool, std::invoke_result_t<Work>>;
    std::optional<Result> result;
    std::exception_ptr failure;
    std::string message;
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
        work();
      } else {
        result.emplace(work());
      }
    } catch (const std::exception& e) {
      if (is_alone()) throw;
      failure = std::current_exception();
      message = e.what();
    }
    agree(failure, message);
    if constexpr (!std::is_void_v<std::invoke_result_t<Work>>) return std::move(*result);
  }

  /// What this rank has done since the last call.
  struct Traffic {
    double communicate_s = 0;     ///< While a message was under way.
    double wait_s = 0;            ///< In wait().
    std::int64_t bytes_sent = 0;  ///< Without the signs of life.
  };
  Traffic take_traffic();

  /// Whether the run has ended with an error on all ranks, so that finish() may follow.
  bool has_agreed_to_fail() const { return has_agreed_to_fail_; }
  /// Waits for all ranks, and leaves the run. No operation may follow.
  void finish();
  /// Ends all processes of the run. May not return.
  void abort(int status);

 private:
  using Clock = std::chrono::steady_clock;

  Tickets begin(bool sends, int other, std::byte* data, std::size_t size, Channel channel);
  void agree(const std::exception_ptr& failure, const std::string& message);
  void exchange_hosts();
  bool poll();  // with mutex_; whether anything has proceeded
  void show_life();
  void check_life();
  void look_for_the_dead();
  std::vector<std::shared_ptr<Message>> announce_report();
  void run_courier();
  void stop_courier();

  std::unique_ptr<Transport> transport_;
  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_ = {""};
  double peer_timeout_s_ = 0;
  bool has_agreed_to_fail_ = false;

  std::mutex mutex_;  // of the transport and of what follows
  std::condition_variable work_;
  bool is_stopping_ = false;
  bool is_resting_ = false;  // the courier, until the next message
  std::string failure_;      // why no message can proceed; "": they can
  std::vector<std::shared_ptr<const Message>> open_;
  Clock::time_point open_since_;
  Traffic traffic_;

  struct Peer {
    int rank = 0;
    std::byte sent{}, received{};
    std::shared_ptr<const Message> sending, receiving;
    Clock::time_point last;  // when a sign of life arrived
  };
  std::vector<Peer> peers_;
  Clock::time_point next_sign_;
  const std::atomic<bool>* is_ending_ = nullptr;  // null: nothing to report, or it is done
  std::optional<Clock::time_point> ends_since_;
  std::function<void(const std::string&)> tell_;
  std::atomic<bool> is_reported_ = false;  // by another rank, which is why the run ends
  std::thread courier_;

  std::atomic<Clock::rep> polls_since_ = 0;  // when the transport's call began that is under way; 0: none is
  std::jthread watch_;
};

}  // namespace vitrine
