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

using Layers = std::vector<CacheLayerConfig>;

/// The cache of a text. The key of each position is a number that depends on all ids up to it, and so is the state of a
/// layer with one.
class Text {
 public:
  Text(const Layers& layers, KvMemory& memory) : layers_(layers), cache_(layers, 200, KvType::f32, memory) {
    cache_.keep_snapshots();
  }

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
      const int number = static_cast<int>(layer);
      if (!layers_[layer].states.empty() && cache_.length() > 0) {
        for (const float state : cache_.state<float>(number, 0)) ASSERT_EQ(state, key_of(cache_.length() - 1));
      }
      if (!layers_[layer].kv) continue;
      for (const KvSpan& span : cache_.past(number, 0)) {
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
    for (std::size_t layer = 0; layer < layers_.size() && n > 0; ++layer) {
      const int number = static_cast<int>(layer);
      if (layers_[layer].kv) cache_.append(number, batch, batch, n);
      if (!layers_[layer].states.empty()) std::ranges::fill(cache_.next_state<float>(number, 0), keys.back());
    }
    if (n > 0) cache_.advance(n);
    check();
  }

  Layers layers_;
  KvCache cache_;
  Ids ids_;
};

const Layers kFull = {KvLayerConfig{1, 1, std::nullopt}, KvLayerConfig{1, 1, std::nullopt}};
const Layers kWindows = {KvLayerConfig{1, 1, std::nullopt}, KvLayerConfig{1, 1, 5}, KvLayerConfig{1, 1, 9}};
const CacheLayerConfig kState(std::vector<StateConfig>{{"s", {3}}});
const Layers kStates = {kState, kState};
const Layers kMixed = {KvLayerConfig{1, 1, std::nullopt}, kState, kState, KvLayerConfig{1, 1, 5}};

std::int64_t read(PrefixCache& prefixes, KvMemory& memory, const Ids& ids, const PrefixKey& key = {},
                  const Layers& layers = kFull) {
  Text text(layers, memory);
  const std::int64_t n = text.read(prefixes, key, ids);
  text.cache().snapshot();
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
  const std::vector<PrefixKey> keys = {{"", 100}, {"a", 100}, {"", 200}, {"", 100, {{new_identity(), 1}}}};
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

TEST(PrefixCache, StatesBeginAtTheDeepestSnapshot) {
  for (const Layers& layers : {kStates, kMixed}) {
    KvPool pool(1 << 20, 4);
    PrefixCache prefixes;
    const auto reads = [&](const Ids& ids) { return read(prefixes, pool, ids, {}, layers); };
    EXPECT_EQ(reads({1, 2}), 0);
    EXPECT_EQ(reads({1, 2, 3, 4, 5, 6}), 2) << "within a block";
    EXPECT_EQ(reads({1, 2, 3, 4, 5, 6, 7, 8, 9}), 6);
    EXPECT_EQ(reads({1, 2, 3, 9}), 2) << "not to the token: only snapshots have the state";
    EXPECT_EQ(reads({1, 2, 3, 9, 9}), 4) << "a block end";
    EXPECT_EQ(reads({1, 2, 3, 4, 5, 6, 7, 7}), 6) << "the beginning of a block with other ids";
    EXPECT_EQ(reads({1, 2, 3, 4, 5, 6, 7, 8, 9, 1}), 9);
    EXPECT_EQ(reads({1, 3}), 0);
    EXPECT_EQ(read(prefixes, pool, {1, 2}, {"other", 0, {}}, layers), 0);
    Text text(layers, pool);
    EXPECT_EQ(prefixes.restore({}, Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 1}, 8, text.cache()), 6) << "at most 8 tokens";
  }
}

TEST(PrefixCache, SnapshotsAreFreedWithTheirBlocks) {
  KvPool pool(1 << 20, 4);
  PrefixCache prefixes;
  read(prefixes, pool, {1, 2, 3, 4, 5, 6}, {}, kMixed);
  read(prefixes, pool, {1, 2, 3, 4, 5, 6, 7}, {}, kMixed);
  EXPECT_EQ(prefixes.idle_bytes(), pool.used_bytes());
  Text none(kMixed, pool);
  const auto known = [&] {
    Text text(kMixed, pool);
    return prefixes.restore({}, Ids{1, 2, 3, 4, 5, 6, 7}, 7, text.cache());
  };
  EXPECT_EQ(known(), 7);
  std::vector<std::int64_t> lengths;
  while (prefixes.evict()) {
    EXPECT_EQ(prefixes.idle_bytes(), pool.used_bytes());
    lengths.push_back(known());
  }
  EXPECT_EQ(lengths.front(), 7) << "the snapshot after 6 tokens was used first";
  EXPECT_EQ(lengths.back(), 0);
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(PrefixCache, TrimCountsSnapshots) {
  KvPool pool(1 << 20, 4);
  constexpr std::int64_t kSnapshot = 2 * 64;
  PrefixCache prefixes(2 * kSnapshot);
  for (std::int32_t id = 1; id <= 5; ++id) read(prefixes, pool, {id, id, id}, {}, kStates);
  EXPECT_EQ(prefixes.idle_bytes(), 5 * kSnapshot);
  Text text(kStates, pool);
  EXPECT_EQ(text.read(prefixes, {}, {1, 1, 1, 1}), 3);
  prefixes.trim();
  EXPECT_EQ(prefixes.idle_bytes(), 2 * kSnapshot);
  EXPECT_EQ(read(prefixes, pool, {2, 2, 2}, {}, kStates), 0);
  EXPECT_EQ(read(prefixes, pool, {5, 5, 5}, {}, kStates), 3);
}

TEST(PrefixCache, LayersThatKeepNothingShareNothing) {
  KvPool pool(1 << 20, 4);
  PrefixCache prefixes;
  EXPECT_EQ(read(prefixes, pool, {1, 2, 3, 4, 5}, {}, {CacheLayerConfig()}), 0);
  EXPECT_EQ(read(prefixes, pool, {1, 2, 3, 4, 5}, {}, {CacheLayerConfig()}), 0);
}

/// Texts of few distinct ids begin alike often. Whatever is kept, freed and restored, each has its own keys.
TEST(PrefixCache, RandomTextsHaveTheirOwnKeys) {
  for (const auto& layers : {kFull, kWindows, kStates, kMixed}) {
    for (const std::int64_t block_length : {1, 2, 5, 8}) {
      Dice dice(static_cast<std::uint64_t>(block_length));
      KvPool sizes(1 << 30, block_length);
      const std::int64_t most = Text(layers, sizes).cache().missing_bytes(60);  // of a step
      const bool has_states = Text(layers, sizes).cache().has_states();
      KvPool pool((has_states ? 12 : 5) * most, block_length);
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
          if (dice.roll() < 0.7) text.cache().snapshot();
          prefixes.keep({}, text.ids(), text.cache(), dice.roll() < 0.5);
          text.check();
        }
        if (testing::Test::HasFatalFailure()) FAIL() << "step " << step;
      }
      EXPECT_GT(n_restored, has_states ? 100 : 1000);
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
