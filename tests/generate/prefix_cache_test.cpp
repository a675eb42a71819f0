// Prefixes that are kept: which tokens a cache begins with, and which blocks are freed first.
#include "generate/prefix_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "base/error.h"
#include "support/dice.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

/// The cache of a text. The key of each position is a number that depends on all ids up to it.
class Text {
 public:
  Text(const std::vector<KvLayerConfig>& layers, KvMemory& memory)
      : layers_(layers), cache_({layers.begin(), layers.end()}, 200, KvType::f32, memory) {}

  const Ids& ids() const { return ids_; }
  KvCache& cache() { return cache_; }

  /// Begins with what is kept, and reads the rest. Returns the number of tokens that were kept.
  std::int64_t read(PrefixCache& prefixes, const PrefixKey& key, const Ids& ids) {
    ids_ = ids;
    const std::int64_t n = prefixes.restore(key, ids_, std::ssize(ids_), cache_);
    EXPECT_EQ(cache_.length(), n);
    check();
    feed(std::ssize(ids_) - n);
    return n;
  }
  void extend(const Ids& more) {
    ids_.insert(ids_.end(), more.begin(), more.end());
    feed(std::ssize(more));
  }
  void check() const {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      for (const KvSpan& span : cache_.past(static_cast<int>(layer), 0)) {
        for (std::int64_t i = 0; i < span.keys.rows; ++i) {
          float key = 0;
          std::memcpy(&key, span.keys.view().at(i, 0), sizeof key);
          ASSERT_EQ(key, key_of(span.first_position + i));
        }
      }
    }
  }

 private:
  float key_of(std::int64_t position) const {
    std::uint64_t hash = 1;
    for (std::int64_t i = 0; i <= position; ++i) {
      hash = hash * 6364136223846793005U + static_cast<std::uint64_t>(ids_[static_cast<std::size_t>(i)]) + 1;
    }
    return static_cast<float>(hash >> 41);
  }
  void feed(std::int64_t n) {
    std::vector<float> keys;
    for (std::int64_t i = 0; i < n; ++i) keys.push_back(key_of(cache_.length() + i));
    const KvBatch batch{reinterpret_cast<const std::byte*>(keys.data()), KvType::f32, 1, 1};
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      cache_.append(static_cast<int>(layer), batch, batch, n);
    }
    cache_.advance(n);
    check();
  }

  std::vector<KvLayerConfig> layers_;
  KvCache cache_;
  Ids ids_;
};

const std::vector<KvLayerConfig> kFull = {{1, 1, std::nullopt}, {1, 1, std::nullopt}};
const std::vector<KvLayerConfig> kWindows = {{1, 1, std::nullopt}, {1, 1, 5}, {1, 1, 9}};

std::int64_t read(PrefixCache& prefixes, KvMemory& memory, const Ids& ids, const PrefixKey& key = {}) {
  Text text(kFull, memory);
  const std::int64_t n = text.read(prefixes, key, ids);
  prefixes.keep(key, text.ids(), text.cache(), true);
  return n;
}

TEST(PrefixCache, RestoresTheLongestCommonPrefix) {
  KvPool pool(1 << 20, 3);
  PrefixCache prefixes;
  EXPECT_EQ(read(prefixes, pool, {1, 2, 3, 4, 5, 6, 7, 8}), 0);
  EXPECT_EQ(read(prefixes, pool, {1, 2, 3, 4, 9, 9}), 4) << "to the token, not to the block";
  EXPECT_EQ(read(prefixes, pool, {1, 2, 3, 4, 9, 9, 5}), 6);
  EXPECT_EQ(read(prefixes, pool, {1, 2, 3, 4, 5, 6, 7, 8, 9, 1}), 8) << "the last block was not full";
  EXPECT_EQ(read(prefixes, pool, {1, 2, 3, 4, 5, 6, 7, 8, 9, 1}), 10);
  EXPECT_EQ(read(prefixes, pool, {2, 2, 3}), 0);
  EXPECT_EQ(read(prefixes, pool, {1}), 1);
}

TEST(PrefixCache, KeysAreSeparate) {
  KvPool pool(1 << 20, 3);
  PrefixCache prefixes;
  const Ids ids = {1, 2, 3, 4, 5};
  const Adapter adapter;
  const std::vector<PrefixKey> keys = {{"", 100}, {"a", 100}, {"", 200}, {"", 100, {{&adapter, 1}}}};
  for (const PrefixKey& key : keys) EXPECT_EQ(read(prefixes, pool, ids, key), 0);
  for (const PrefixKey& key : keys) EXPECT_EQ(read(prefixes, pool, ids, key), 5);
}

TEST(PrefixCache, FreesWhatWasNotUsedForTheLongestTime) {
  KvPool pool(1 << 20, 2);
  PrefixCache prefixes;
  read(prefixes, pool, {1, 1, 1, 1, 1, 1});
  read(prefixes, pool, {2, 2, 2, 2});
  EXPECT_EQ(read(prefixes, pool, {1, 1, 1, 1}), 4) << "uses the first two blocks of the first text again";
  EXPECT_EQ(prefixes.idle_bytes(), pool.used_bytes());
  const auto known = [&](const Ids& ids) {
    Text text(kFull, pool);
    return text.read(prefixes, {}, ids);
  };
  ASSERT_TRUE(prefixes.evict());
  EXPECT_EQ(known({2, 2, 2, 2}), 4);
  EXPECT_EQ(known({1, 1, 1, 1, 1, 1}), 4) << "its last block is the oldest";
  ASSERT_TRUE(prefixes.evict());
  EXPECT_EQ(known({2, 2, 2, 2}), 2) << "the end of a text goes before its beginning";
  ASSERT_TRUE(prefixes.evict());
  ASSERT_TRUE(prefixes.evict());
  ASSERT_TRUE(prefixes.evict());
  EXPECT_FALSE(prefixes.evict());
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_EQ(known({1, 1, 1}), 0);
}

TEST(PrefixCache, TrimFreesTheOldestIdleBlocksAboveTheLimit) {
  KvPool pool(1 << 20, 2);
  PrefixCache unlimited;
  read(unlimited, pool, {1, 1});
  unlimited.trim();
  const std::int64_t block_bytes = unlimited.idle_bytes();
  ASSERT_GT(block_bytes, 0);

  PrefixCache prefixes(2 * block_bytes);
  Text text(kFull, pool);
  text.read(prefixes, {}, {1, 1, 1, 1, 1, 1});
  prefixes.keep({}, text.ids(), text.cache(), true);
  read(prefixes, pool, {2, 2});
  read(prefixes, pool, {3, 3});
  read(prefixes, pool, {4, 4});
  prefixes.trim();
  EXPECT_EQ(prefixes.idle_bytes(), 2 * block_bytes) << "blocks in use do not count";
  EXPECT_EQ(read(prefixes, pool, {2, 2}), 0);
  EXPECT_EQ(read(prefixes, pool, {4, 4}), 2);
  EXPECT_EQ(read(prefixes, pool, {1, 1, 1, 1, 1, 1}), 6);
}

TEST(PrefixCache, BlocksInUseAreNotFreed) {
  KvPool pool(1 << 20, 2);
  PrefixCache prefixes;
  Text text(kFull, pool);
  text.read(prefixes, {}, {1, 2, 3, 4, 5});
  prefixes.keep({}, text.ids(), text.cache(), false);
  EXPECT_EQ(prefixes.idle_bytes(), 0);
  EXPECT_FALSE(prefixes.evict());
  Text other(kFull, pool);
  EXPECT_EQ(other.read(prefixes, {}, {1, 2, 3, 4, 5}), 4) << "the last block is still written to";
}

/// Texts of few distinct ids begin alike often. Whatever is kept, freed and restored, each has its own keys.
TEST(PrefixCache, RandomTextsHaveTheirOwnKeys) {
  for (const auto& layers : {kFull, kWindows}) {
    for (const std::int64_t block_length : {1, 2, 5, 8}) {
      Dice dice(static_cast<std::uint64_t>(block_length));
      KvPool sizes(1 << 30, block_length);
      const std::int64_t most = Text(layers, sizes).cache().missing_bytes(60);  // of a step
      KvPool pool(5 * most, block_length);
      PrefixCache prefixes;
      std::vector<std::unique_ptr<Text>> texts;
      const auto some_ids = [&](std::int64_t n) {
        Ids ids;
        for (std::int64_t i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(dice.roll() < 0.9 ? 1 : 2));
        return ids;
      };
      std::int64_t n_restored = 0, n_evicted = 0, n_too_many = 0;
      for (int step = 0; step < 1500; ++step) {
        while (pool.free_bytes() < most && prefixes.evict()) ++n_evicted;
        if (pool.free_bytes() < most || texts.size() > 6) {
          texts.erase(texts.begin() + dice.number(0, std::ssize(texts) - 1));
          ++n_too_many;
          continue;
        }
        if (texts.empty() || dice.roll() < 0.3) {
          texts.push_back(std::make_unique<Text>(layers, pool));
          n_restored += texts.back()->read(prefixes, {}, some_ids(dice.number(1, 50)));
        } else {
          Text& text = *texts[static_cast<std::size_t>(dice.number(0, std::ssize(texts) - 1))];
          if (text.ids().size() < 150) text.extend(some_ids(dice.number(1, 12)));
          prefixes.keep({}, text.ids(), text.cache(), dice.roll() < 0.5);
          text.check();
        }
        if (testing::Test::HasFatalFailure()) FAIL() << "step " << step;
      }
      EXPECT_GT(n_restored, 1000);
      EXPECT_GT(n_evicted, 50);
      EXPECT_GT(n_too_many, 10);
      texts.clear();
      EXPECT_EQ(prefixes.idle_bytes(), pool.used_bytes());
      while (prefixes.evict()) {
      }
      EXPECT_EQ(pool.used_bytes(), 0);
    }
  }
}

}  // namespace
}  // namespace vitrine::test
