#include "parallel/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <string>

#include "base/error.h"

namespace vitrine::test {
namespace {

struct Range {
  std::int64_t begin, end;
  int thread;
};

std::vector<Range> ranges_of(ThreadPool& pool, std::int64_t count, std::int64_t grain) {
  std::mutex mutex;
  std::vector<Range> ranges;
  pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    const std::lock_guard lock(mutex);
    ranges.push_back({begin, end, thread});
  });
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  return ranges;
}

class PoolOf : public testing::TestWithParam<int> {};

TEST_P(PoolOf, CoversEachIndexOnceInRangesOfAtLeastTheGrain) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.size(), GetParam());
  for (const std::int64_t count : {1, 2, 3, 5, 7, 8, 9, 63, 64, 65, 100, 1000, 4097}) {
    for (const std::int64_t grain : {-1, 0, 1, 2, 3, 7, 64, 999, 5000}) {
      std::int64_t covered = 0;
      const std::vector<Range> ranges = ranges_of(pool, count, grain);
      for (const Range& range : ranges) {
        ASSERT_EQ(range.begin, covered);
        ASSERT_GT(range.end, range.begin);
        ASSERT_GE(range.thread, 0);
        ASSERT_LT(range.thread, pool.size());
        ASSERT_TRUE(range.end == count || range.end - range.begin >= grain) << count << " by " << grain;
        covered = range.end;
      }
      ASSERT_EQ(covered, count);
      if (count >= grain * pool.size() && count >= pool.size()) {
        ASSERT_GE(static_cast<int>(ranges.size()), pool.size()) << "enough for all threads";
      }
    }
  }
}

TEST_P(PoolOf, AnEmptyLoopCallsNoBody) {
  ThreadPool pool(GetParam());
  EXPECT_TRUE(ranges_of(pool, 0, 1).empty());
  EXPECT_TRUE(ranges_of(pool, -5, 1).empty());
}

TEST_P(PoolOf, ASingleRangeRunsOnTheCallingThread) {
  ThreadPool pool(GetParam());
  std::thread::id id;
  pool.parallel_for(10, 10, [&](std::int64_t, std::int64_t, int) { id = std::this_thread::get_id(); });
  EXPECT_EQ(id, std::this_thread::get_id());
}

TEST_P(PoolOf, RethrowsAnExceptionOfAnyRangeAndStillWorks) {
  ThreadPool pool(GetParam());
  for (int thrower = 0; thrower < pool.size(); ++thrower) {
    std::atomic<int> ended = 0;
    const auto loop = [&] {
      pool.parallel_for(pool.size(), 1, [&](std::int64_t begin, std::int64_t end, int) {
        ended += static_cast<int>(end - begin);
        if (begin <= thrower && thrower < end) throw BadInput("range", "{}", thrower);
      });
    };
    try {
      loop();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const BadInput& e) {
      EXPECT_EQ(e.what(), "[range] " + std::to_string(thrower));
    }
    EXPECT_EQ(ended, pool.size()) << "all ranges have ended";
    EXPECT_GE(static_cast<int>(ranges_of(pool, 1000, 1).size()), pool.size());
  }
}

TEST_P(PoolOf, RethrowsOneExceptionWhenAllRangesThrow) {
  ThreadPool pool(GetParam());
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(pool.parallel_for(100, 1, [](std::int64_t, std::int64_t, int) { throw Interrupted(); }), Interrupted);
  }
  EXPECT_NO_THROW(pool.parallel_for(100, 1, [](std::int64_t, std::int64_t, int) {}));
}

TEST_P(PoolOf, RefusesALoopInsideALoop) {
  ThreadPool pool(GetParam());
  ThreadPool other(2);
  for (const std::int64_t count : {1, 100}) {
    const auto nested_in = [&](ThreadPool& inner) {
      pool.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t, int) {
        if (begin == 0) inner.parallel_for(count, 1, [](std::int64_t, std::int64_t, int) {});
      });
    };
    EXPECT_THROW(nested_in(pool), InternalError) << count;
    EXPECT_NO_THROW(nested_in(other)) << count;
  }
  EXPECT_GE(static_cast<int>(ranges_of(pool, 1000, 1).size()), pool.size()) << "the pool still works";
}

TEST(ThreadPool, RefusesALoopInsideALoopOnAWorker) {
  ThreadPool pool(2);
  std::atomic<bool> has_nested = false;
  const auto nested = [&](std::int64_t, std::int64_t, int thread) {
    if (thread == 0) return has_nested.wait(false);
    has_nested = true;
    has_nested.notify_one();
    pool.parallel_for(2, 1, [](std::int64_t, std::int64_t, int) {});
  };
  EXPECT_THROW(pool.parallel_for(2, 1, nested), InternalError);
}

TEST_P(PoolOf, ThousandsOfTinyLoops) {
#if defined(__SANITIZE_THREAD__)
  constexpr int kLoops = 200;  // each takes milliseconds with ThreadSanitizer
#else
  constexpr int kLoops = 2000;
#endif
  ThreadPool pool(GetParam());
  std::vector<int> values(64, 0);  // plain ints: the loops themselves order the accesses
  for (int i = 0; i < kLoops; ++i) {
    pool.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t k = begin; k < end; ++k) ++values[static_cast<std::size_t>(k)];
    });
    ASSERT_EQ(values[static_cast<std::size_t>(i % 64)], i + 1);
  }
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0), 64 * kLoops);
}

INSTANTIATE_TEST_SUITE_P(Threads, PoolOf, testing::Values(1, 2, 3, 5, 16),
                         [](const auto& param_info) { return std::to_string(param_info.param); });

TEST(ThreadPool, RefusesInvalidThreadCounts) {
  for (const int n : {0, -1, 1025, 1 << 30}) EXPECT_THROW(ThreadPool{n}, BadInput) << n;
  EXPECT_GE(default_thread_count(), 1);
}

TEST(ThreadPool, IsDestroyedRightAfterItsCreation) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(8);
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(8);
    pool.parallel_for(8, 1, [](std::int64_t, std::int64_t, int) {});
  }
}

TEST(ThreadPool, IsDestroyedWhileItsWorkersSleep) {
  ThreadPool pool(4);
  pool.parallel_for(4, 1, [](std::int64_t, std::int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(ThreadPool, WakesSleepingWorkers) {
  ThreadPool pool(3);
  std::atomic<int> calls = 0;
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.parallel_for(3, 1, [&](std::int64_t begin, std::int64_t end, int) { calls += static_cast<int>(end - begin); });
  }
  EXPECT_EQ(calls, 30);
}

/// The first index runs until all others have ended, so a share of the loop that is not taken from its thread would
/// never be run.
TEST(ThreadPool, OtherThreadsTakeWhatASlowOneHasLeft) {
  constexpr std::int64_t kCount = 1000;
  for (const int n_threads : {2, 3, 8}) {
    ThreadPool pool(n_threads);
    for (int i = 0; i < 20; ++i) {
      std::atomic<std::int64_t> ended = 0;
      std::int64_t first_range = 0;
      pool.parallel_for(kCount, 1, [&](std::int64_t begin, std::int64_t end, int) {
        if (begin == 0) {
          first_range = end;
          for (std::int64_t n = ended; n < kCount - end; n = ended) ended.wait(n);
        }
        ended += end - begin;
        ended.notify_all();
      });
      EXPECT_EQ(ended, kCount);
      EXPECT_LT(first_range, kCount / n_threads) << "it was a whole share";
    }
  }
}

TEST(ThreadPool, WaitsForASlowWorker) {
  ThreadPool pool(2);
  bool done = false;
  std::atomic<bool> has_begun = false;
  pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t, int thread) {
    if (thread == 0) return has_begun.wait(false);
    has_begun = true;
    has_begun.notify_one();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = true;
  });
  EXPECT_TRUE(done);
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(ThreadPool, UsesNoCpuTimeWhileIdle) {
  ThreadPool pool(8);
  pool.parallel_for(8, 1, [](std::int64_t, std::int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until the workers have stopped spinning
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(cpu_seconds() - before, 0.01);
}

/// Limits the address space, so that some threads start before the system refuses one.
void create_a_pool_without_memory_for_stacks() {
  const rlimit less{std::uint64_t{1} << 28, std::uint64_t{1} << 28};
  if (::setrlimit(RLIMIT_AS, &less) != 0) std::_Exit(1);
  try {
    ThreadPool pool(1024);
  } catch (const OutOfCapacity&) {
    std::_Exit(0);
  } catch (...) {
  }
  std::_Exit(2);
}

TEST(ThreadPoolDeathTest, TooManyThreadsForTheSystem) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space";
#endif
  EXPECT_EXIT(create_a_pool_without_memory_for_stacks(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace vitrine::test
