#include "parallel/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "parallel/in_loop.h"

namespace vitrine {
namespace {

thread_local int loops_of_thread = 0;  // that the thread is in: a loop of one pool may run one of another

constexpr std::chrono::microseconds kSpinTime{50};  // longer than most gaps between two loops of a forward
constexpr int kMaxThreads = 1024;
constexpr std::int64_t kPiecesPerThread = 8;

/// A share as one word: the number of its loop, and the pieces that are left.
constexpr std::uint64_t share_of(std::uint32_t loop, std::int64_t begin, std::int64_t end) {
  static_assert(kMaxThreads * kPiecesPerThread < 1 << 16);
  return std::uint64_t{loop} << 32 | static_cast<std::uint64_t>(begin) << 16 | static_cast<std::uint64_t>(end);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits until `is_ready()`, but not longer than kSpinTime. A pause takes 10 to 140 cycles, so the clock decides.
template <class Ready>
void spin_until(Ready is_ready) {
  constexpr int kPauses = 32;  // between two looks at the clock
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPauses; ++i) {
      if (is_ready()) return;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
}

}  // namespace

ThreadPool::ThreadPool(int n_threads) {
  if (n_threads < 1 || n_threads > kMaxThreads) {
    throw BadInput("threads", "expected a number of threads from 1 to {}, got {}", kMaxThreads, n_threads);
  }
  scratch_.reset(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>(n_threads * kScratchBytes))));
  if (scratch_ == nullptr) throw OutOfCapacity("threads", "no memory for the scratch of {} threads", n_threads);
  shares_ = std::vector<Share>(static_cast<std::size_t>(n_threads));
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

/// Begins a loop. Returns whether it has several pieces; if not, the caller runs it.
bool ThreadPool::start(Call call, const void* context, std::int64_t count, std::int64_t grain) {
  // No read-modify-write is needed: the threads of a loop start after the flag is set, so a nested loop sees it.
  if (running_.load(std::memory_order_relaxed)) {
    throw InternalError("parallel_for", "called while another loop of the same pool is running");
  }
  running_.store(true, std::memory_order_relaxed);
  ++loops_of_thread;
  const std::int64_t n = size();
  const std::int64_t most = n == 1 ? 1 : n * kPiecesPerThread;
  const std::int64_t pieces = std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, most);
  if (pieces == 1) return false;
  loop_ = {call, context, count, pieces};
  unfinished_.store(static_cast<std::uint32_t>(pieces), std::memory_order_relaxed);
  const std::uint32_t number = generation_.load(std::memory_order_relaxed) + 1;
  for (std::int64_t thread = 0; thread < n; ++thread) {
    shares_[static_cast<std::size_t>(thread)].word.store(
        share_of(number, pieces * thread / n, pieces * (thread + 1) / n), std::memory_order_release);
  }
  generation_.store(number, std::memory_order_release);
  generation_.notify_all();
  return true;
}

/// The number of a piece that this call has taken from the share, −1 if none is left.
std::int64_t ThreadPool::take(Share& share, bool is_own) {
  std::uint64_t word = share.word.load(std::memory_order_relaxed);
  for (;;) {
    const auto loop = static_cast<std::uint32_t>(word >> 32);
    const auto begin = static_cast<std::int64_t>(word >> 16 & 0xFFFF), end = static_cast<std::int64_t>(word & 0xFFFF);
    if (begin == end) return -1;
    const std::uint64_t left = is_own ? share_of(loop, begin + 1, end) : share_of(loop, begin, end - 1);
    if (share.word.compare_exchange_weak(word, left, std::memory_order_acquire, std::memory_order_relaxed)) {
      return is_own ? begin : end - 1;
    }
  }
}

/// Runs pieces of the current loop until none is left to take: the thread's own, then those of the others.
void ThreadPool::take_pieces(int thread) {
  for (int i = 0; i < size(); ++i) {
    Share& share = shares_[static_cast<std::size_t>((thread + i) % size())];
    for (std::int64_t piece = take(share, i == 0); piece >= 0; piece = take(share, i == 0)) {
      const Loop& loop = loop_;
      try {
        loop.call(loop.context, loop.count * piece / loop.pieces, loop.count * (piece + 1) / loop.pieces, thread);
      } catch (...) {
        keep_failure();
      }
      if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    }
  }
}

/// Waits for the pieces that workers run. Rethrows the first exception of the loop.
void ThreadPool::finish() {
  spin_until([&] { return unfinished_.load(std::memory_order_acquire) == 0; });
  for (std::uint32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;) {
    unfinished_.wait(left, std::memory_order_acquire);
  }
  running_.store(false, std::memory_order_relaxed);
  --loops_of_thread;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::keep_failure() {
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = std::current_exception();
}

void ThreadPool::work(int thread) {
  ++loops_of_thread;
  std::uint32_t last = 0;
  for (;;) {
    spin_until([&] { return generation_.load(std::memory_order_acquire) != last; });
    generation_.wait(last, std::memory_order_acquire);
    last = generation_.load(std::memory_order_acquire);
    if (stopping_) return;
    take_pieces(thread);
  }
}

bool in_parallel_loop() { return loops_of_thread > 0; }

int default_thread_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace vitrine
