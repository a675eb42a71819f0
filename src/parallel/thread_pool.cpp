#include "parallel/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr int kSpins = 2000;  // about ten microseconds, longer than the gap between two loops of a forward
constexpr int kMaxThreads = 1024;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Sets a flag for as long as a loop runs. No read-modify-write is needed: a nested loop sees the flag of the enclosing
/// loop, because the threads of the enclosing loop start after the flag is set.
class Running {
 public:
  explicit Running(std::atomic<bool>& flag) : flag_(flag) { flag_.store(true, std::memory_order_relaxed); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { flag_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

ThreadPool::ThreadPool(int n_threads) {
  if (n_threads < 1 || n_threads > kMaxThreads) {
    throw BadInput("threads", "expected a number of threads from 1 to {}, got {}", kMaxThreads, n_threads);
  }
  scratch_.reset(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>(n_threads * kScratchBytes))));
  if (scratch_ == nullptr) throw OutOfCapacity("threads", "no memory for the scratch of {} threads", n_threads);
  workers_.reserve(static_cast<std::size_t>(n_threads - 1));
  try {
    for (int thread = 1; thread < n_threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error& e) {
    const int started = size();
    stop();  // the destructor does not run if the constructor throws
    throw OutOfCapacity("threads", "expected {} threads, the system gives {}: {}", n_threads, started, e.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, Call call, const void* context) {
  if (running_.load(std::memory_order_relaxed)) {
    throw InternalError("parallel_for", "called while another loop of the same pool is running");
  }
  if (count <= 0) return;
  const Running running(running_);
  const std::int64_t ranges = std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, size());
  if (ranges == 1) return call(const_cast<void*>(context), 0, count, 0);

  loop_ = {call, const_cast<void*>(context), count, ranges};
  unfinished_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  run_range(loop_, 0);
  for (int spins = 0;; ++spins) {
    const std::uint32_t left = unfinished_.load(std::memory_order_acquire);
    if (left == 0) break;
    if (spins < kSpins) {
      pause_briefly();
    } else {
      unfinished_.wait(left, std::memory_order_acquire);
    }
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::run_range(const Loop& loop, int thread) {
  if (thread >= loop.ranges) return;
  const std::int64_t begin = loop.count * thread / loop.ranges;
  const std::int64_t end = loop.count * (thread + 1) / loop.ranges;
  try {
    loop.call(loop.context, begin, end, thread);
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void ThreadPool::work(int thread) {
  std::uint32_t last = 0;
  for (;;) {
    for (int spins = 0; generation_.load(std::memory_order_acquire) == last; ++spins) {
      if (spins < kSpins) {
        pause_briefly();
      } else {
        generation_.wait(last, std::memory_order_acquire);
      }
    }
    last = generation_.load(std::memory_order_acquire);
    if (stopping_) return;
    run_range(loop_, thread);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

int default_thread_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace vitrine
