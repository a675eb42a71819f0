// A pool of worker threads that is passed to whoever needs it, never a global.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace vitrine {

/// Splits loops over threads. The split is static, by index; vitrine's loops compute each output from start to end on
/// one thread, so their results do not depend on the number of threads. Workers spin for some microseconds between
/// loops, then sleep; a pool that is not used costs nothing. Workers inherit the floating-point mode of the thread that
/// makes the pool. One loop at a time: a pool serves one caller.
class ThreadPool {
 public:
  /// `n_threads` ≥ 1 counts the calling thread. Throws BadInput otherwise, OutOfCapacity where the system refuses.
  explicit ThreadPool(int n_threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(begin, end, thread) on disjoint ranges which cover [0, count), at least `grain` long (but the last);
  /// thread is in [0, size()). A loop that fills one range only runs inline and wakes nobody. The first exception of
  /// any range is thrown here, after all ranges have ended.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
    const auto call = [](void* context, std::int64_t begin, std::int64_t end, int thread) {
      (*static_cast<std::remove_reference_t<Body>*>(context))(begin, end, thread);
    };
    run(count, grain, call, &body);
  }

 private:
  using Call = void (*)(void* context, std::int64_t begin, std::int64_t end, int thread);
  struct Loop {
    Call call = nullptr;
    void* context = nullptr;
    std::int64_t count = 0;
    std::int64_t ranges = 0;
  };

  void run(std::int64_t count, std::int64_t grain, Call call, const void* context);
  void run_range(const Loop& loop, int thread);
  void work(int thread);
  void stop();

  std::vector<std::thread> workers_;
  Loop loop_;  // written before generation_ grows, read by workers after they see it
  std::atomic<std::uint32_t> generation_ = 0;
  std::atomic<std::uint32_t> unfinished_ = 0;
  std::atomic<bool> stopping_ = false;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

/// The number of threads to use unless told otherwise: the processors this process may run on.
int default_thread_count();

}  // namespace vitrine
