// A pool of worker threads. It is passed to the code that needs it and is never global.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace vitrine {

/// Divides loops among threads. A loop is cut into pieces; each thread begins with an equal share of neighboring pieces
/// and, when it has none left, takes the last pieces of others, so that no thread waits for one that another program
/// slows down. Each output of vitrine's loops is computed within one index, so results depend neither on the number of
/// threads nor on who takes a piece. Workers spin for some microseconds between loops, then sleep; an idle pool uses no
/// CPU time. Workers inherit the floating-point mode of the thread that creates the pool. A pool runs one loop at a
/// time and belongs to one caller.
class ThreadPool {
 public:
  /// `n_threads` counts the calling thread. Throws BadInput if it is out of range, OutOfCapacity if the system cannot
  /// create that many threads.
  explicit ThreadPool(int n_threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int size() const { return static_cast<int>(workers_.size()) + 1; }
  /// Temporary memory of a thread, kScratchBytes aligned to 64 bytes, for data that is too large for a small stack. A
  /// function that runs on the thread may use it until it calls another function that uses it.
  std::byte* scratch(int thread) const { return scratch_.get() + thread * kScratchBytes; }
  static constexpr std::int64_t kScratchBytes = 1 << 20;

  /// Calls body(begin, end, thread) on disjoint ranges that cover [0, count), any number of times in each thread. Each
  /// range has at least `grain` indices, unless count is less; thread is in [0, size()). A loop with a single range
  /// runs on the calling thread and wakes no worker. If bodies throw, the first exception is rethrown here after all
  /// ranges have ended. Throws InternalError if a loop of this pool is already running, as it is when a body calls
  /// parallel_for.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
    const auto call = [](const void* context, std::int64_t begin, std::int64_t end, int thread) {
      (*static_cast<const std::remove_reference_t<Body>*>(context))(begin, end, thread);
    };
    if (start(call, &body, count, grain)) {
      take_pieces(0);
    } else if (count > 0) {
      try {
        body(0, count, 0);
      } catch (...) {
        keep_failure();
      }
    }
    finish();
  }

 private:
  using Call = void (*)(const void* context, std::int64_t begin, std::int64_t end, int thread);
  struct Loop {
    Call call = nullptr;
    const void* context = nullptr;
    std::int64_t count = 0;
    std::int64_t pieces = 0;
  };
  /// The pieces [begin, end) of a thread's share that nobody has taken, with the number of the loop, in one word: who
  /// comes late takes nothing of another loop. The owner takes the first, others the last.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> word = 0;
  };

  bool start(Call call, const void* context, std::int64_t count, std::int64_t grain);
  void take_pieces(int thread);
  static std::int64_t take(Share& share, bool is_own);
  void finish();
  void keep_failure();
  void work(int thread);
  void stop();

  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> scratch_;  // pages that no thread touches use no memory
  std::vector<std::thread> workers_;
  std::vector<Share> shares_;  // one per thread
  Loop loop_;                  // written before shares_, read by those who have taken a piece
  std::atomic<std::uint32_t> generation_ = 0;
  std::atomic<std::uint32_t> unfinished_ = 0;  // pieces
  std::atomic<bool> stopping_ = false;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  // Whether a loop is running. It has its own cache line, because workers poll the cache line of generation_.
  alignas(64) std::atomic<bool> running_ = false;
};

/// The default number of threads: the number of processors that this process may run on.
int default_thread_count();

}  // namespace vitrine
