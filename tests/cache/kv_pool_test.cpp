#include "cache/cached_sequence.h"

namespace vitrine::test {
namespace {

TEST(KvPool, IsExhaustedAtItsCapacity) {
  const std::vector<KvLayerConfig> layers = {{1, 4, std::nullopt}, {1, 4, 2}};
  constexpr std::int64_t kBlock = 2 * 4 * 4 * 4;
  KvPool pool(7 * kBlock, 4);
  EXPECT_EQ(pool.used_bytes(), 0);
  {
    Sequence first(layers, 100, 4, pool);
    first.feed(4);
    EXPECT_EQ(pool.used_bytes(), 2 * kBlock);
    Sequence second(layers, 100, 4, pool);
    second.feed(8);
    EXPECT_EQ(pool.used_bytes(), 6 * kBlock);
    EXPECT_THROW(first.cache().reserve(1), OutOfCapacity) << "needs two blocks";
    EXPECT_EQ(pool.used_bytes(), 6 * kBlock) << "nothing is kept of a failed reservation";
    first.check();
    ASSERT_EQ(second.truncate(4), 4);
    EXPECT_EQ(pool.used_bytes(), 4 * kBlock);
    first.cache().reserve(4);
    EXPECT_EQ(pool.used_bytes(), 6 * kBlock);
    first.feed(4);
    first.check();
    second.check();
    EXPECT_EQ(pool.used_bytes(), 6 * kBlock) << "it was reserved";
    EXPECT_THROW(first.cache().reserve(200), OutOfCapacity);
  }
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(KvPool, MayEndBeforeItsBlocks) {
  std::optional<KvPool> pool(1 << 10);
  const std::shared_ptr<std::byte> block = pool->take(1 << 10);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(pool->take(1), nullptr);
  pool.reset();
  block.get()[1023] = std::byte{1};
}

/// Many sequences that copy each other, continue, are truncated and end, in a pool with little memory.
TEST(KvPool, RandomSharingLosesNoToken) {
  const std::vector<KvLayerConfig> layers = {{2, 3, std::nullopt}, {1, 2, 5}, {1, 2, 11}};
  std::uint64_t draw = 0;
  const auto number = [&](std::int64_t n) {
    return static_cast<std::int64_t>(uniform(11, 0, draw++) * static_cast<double>(n));
  };
  for (const auto& [block_length, states] :
       {std::pair(1, States::no), {3, States::no}, {4, States::no}, {1, States::yes}, {3, States::yes}}) {
    KvPool pool(40'000, block_length);
    std::vector<std::unique_ptr<Sequence>> sequences;
    int n_exhausted = 0, n_returned = 0;
    for (int step = 0; step < 3000; ++step) {
      const auto at = static_cast<std::size_t>(number(std::ssize(sequences)));
      if (const std::int64_t action = number(8); action == 0 || sequences.empty()) {
        sequences.push_back(std::make_unique<Sequence>(layers, 60, block_length, pool, states));
      } else if (action == 1) {
        auto copy = std::make_unique<Sequence>(layers, 60, block_length, pool, states);
        copy->copy_from(*sequences[at]);
        sequences.push_back(std::move(copy));
      } else if (action == 2 && sequences.size() > 5) {
        sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(at));
      } else if (action == 3) {
        KvCache& cache = sequences[at]->cache();
        const std::int64_t length = std::max<std::int64_t>(0, cache.length() - number(12));
        const std::int64_t kept = sequences[at]->truncate(length);
        n_returned += kept > 0 && kept < length ? 1 : 0;
      } else {
        KvCache& cache = sequences[at]->cache();
        const std::int64_t count = number(std::min<std::int64_t>(20, cache.capacity() - cache.length() + 1));
        try {
          cache.reserve(count);
          sequences[at]->feed(count, static_cast<float>(number(1000) * 16384));
          if (number(2) == 0) cache.snapshot();
        } catch (const OutOfCapacity&) {
          ++n_exhausted;
          sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(at));
        }
      }
      EXPECT_LE(pool.used_bytes(), pool.capacity_bytes());
      for (const auto& sequence : sequences) sequence->check();
      if (testing::Test::HasFatalFailure()) FAIL() << "step " << step;
    }
    EXPECT_GT(n_exhausted, 10);
    EXPECT_EQ(n_returned > 10, states == States::yes);
    sequences.clear();
    EXPECT_EQ(pool.used_bytes(), 0);
  }
}

}  // namespace
}  // namespace vitrine::test
