// The thread pools of a model.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "parallel/thread_pool.h"

namespace vitrine {

/// Each call takes one and returns it at the end. At most kMaxPools pools have workers. If
/// all of them are in use, a call gets a pool without workers instead of waiting, because it may have been made by a
/// callback of the call for which it would wait.
class PoolShelf {
 public:
  static constexpr std::size_t kMaxPools = 4;

  explicit PoolShelf(int n_threads) : n_threads_(n_threads) {  // creates a pool, to check n_threads now
    free_.reserve(kMaxPools);
    put(take());
  }

  std::unique_ptr<ThreadPool> take() {
    forget_after_fork();
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<ThreadPool> pool = std::move(free_.back());
      free_.pop_back();
      return pool;
    }
    if (n_created_ == kMaxPools) return std::make_unique<ThreadPool>(1);
    auto pool = std::make_unique<ThreadPool>(n_threads_);
    ++n_created_;
    return pool;
  }
  void put(std::unique_ptr<ThreadPool> pool) noexcept {
    const std::lock_guard lock(mutex_);
    if (pool->size() == n_threads_ && free_.size() < kMaxPools) free_.push_back(std::move(pool));
  }

 private:
  /// A child process has no threads of its parent. It forgets their pools, which nothing can join any more, and the
  /// mutex, which another thread of the parent may have held.
  void forget_after_fork() {
    pid_t owner = owner_;
    if (owner == ::getpid() || !owner_.compare_exchange_strong(owner, ::getpid())) return;
    for (std::unique_ptr<ThreadPool>& pool : free_) (void)pool.release();
    free_.clear();
    n_created_ = 0;
    new (&mutex_) std::mutex;
  }

  const int n_threads_;
  std::atomic<pid_t> owner_ = ::getpid();
  std::mutex mutex_;
  std::size_t n_created_ = 0;
  std::vector<std::unique_ptr<ThreadPool>> free_;
};

}  // namespace vitrine
