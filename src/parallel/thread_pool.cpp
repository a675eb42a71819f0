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

/// Begins a loop, on the workers if it has several ranges. Returns the end of the calling thread's range.
std::int64_t ThreadPool::start(Call call, const void* context, std::int64_t count, std::int64_t grain) {
  // No read-modify-write is needed: the threads of a loop start after the flag is set, so a nested loop sees it.
  if (running_.load(std::memory_order_relaxed)) {
    throw InternalError("parallel_for", "called while another loop of the same pool is running");
  }
  running_.store(true, std::memory_order_relaxed);
  const std::int64_t ranges = std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, size());
  if (ranges == 1) return count;
  loop_ = {call, context, count, ranges};
  unfinished_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  return count / ranges;
}

/// Waits for the workers. Rethrows the first exception of the loop.
void ThreadPool::finish() {
  for (int spins = 0;; ++spins) {
    const std::uint32_t left = unfinished_.load(std::memory_order_acquire);
    if (left == 0) break;
    if (spins < kSpins) {
      pause_briefly();
    } else {
      unfinished_.wait(left, std::memory_order_acquire);
    }
  }
  running_.store(false, std::memory_order_relaxed);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::keep_failure() {
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = std::current_exception();
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
    if (thread < loop_.ranges) {
      try {
        loop_.call(loop_.context, loop_.count * thread / loop_.ranges, loop_.count * (thread + 1) / loop_.ranges,
                   thread);
      } catch (...) {
        keep_failure();
      }
    }
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
