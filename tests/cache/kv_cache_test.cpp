#include "cache/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/rng.h"

namespace vitrine::test {
namespace {

/// A distinct value for each element of each token.
float element(int layer, bool is_value, std::int64_t position, std::int64_t head, std::int64_t i) {
  return static_cast<float>(((position * 4 + head) * 8 + i) * 4 + layer * 2 + (is_value ? 1 : 0));
}

/// Whether a sequence has states in addition to its keys and values: two in a layer of their own.
enum class States { no, yes };

std::vector<CacheLayerConfig> with_states(const std::vector<KvLayerConfig>& layers, States states) {
  std::vector<CacheLayerConfig> all(layers.begin(), layers.end());
  if (states == States::yes) {
    all.push_back(std::vector<StateConfig>{{"sums", {2, 3}}, {"ids", {5}, StateType::i32}});
  }
  return all;
}

class Sequence {
 public:
  Sequence(const std::vector<KvLayerConfig>& layers, std::int64_t capacity, std::int64_t block_length = 2,
           KvMemory& memory = system_kv_memory(), States states = States::no)
      : layers_(layers), cache_(with_states(layers, states), capacity, KvType::f32, memory, block_length) {
    if (states == States::yes) cache_.keep_snapshots();
  }

  /// Appends tokens, to whose elements `stamp` is added.
  void feed(std::int64_t count, float stamp = 0) {
    stamps_.resize(static_cast<std::size_t>(cache_.length()));
    stamps_.insert(stamps_.end(), static_cast<std::size_t>(count), stamp);
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const auto keys = rows(static_cast<int>(layer), false, count),
                 values = rows(static_cast<int>(layer), true, count);
      cache_.append(static_cast<int>(layer), {as_bytes(keys)}, {as_bytes(values)}, count);
    }
    if (cache_.has_states()) {
      const int layer = static_cast<int>(layers_.size());
      std::ranges::fill(cache_.next_state<float>(layer, 0), sum());
      std::ranges::fill(cache_.next_state<std::int32_t>(layer, 1), static_cast<std::int32_t>(stamps_.size()));
    }
    cache_.advance(count);
  }
  void copy_from(const Sequence& other) {
    cache_.copy_from(other.cache_);
    stamps_ = other.stamps_;
  }
  std::int64_t truncate(std::int64_t length) {
    const std::int64_t kept = cache_.truncate(length);
    EXPECT_EQ(cache_.length(), kept);
    stamps_.resize(static_cast<std::size_t>(kept));
    return kept;
  }

  /// The spans hold the positions that each layer keeps, and every part of them.
  void check() const {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const std::int64_t kept = std::min(cache_.capacity(), layers_[layer].window.value_or(cache_.capacity()));
      for (std::int64_t head = 0; head < layers_[layer].n_kv_heads; ++head) {
        const KvSpans spans = cache_.past(static_cast<int>(layer), head);
        const std::int64_t first = cache_.length() - std::min(cache_.length(), kept), end = cache_.length();
        ASSERT_EQ(spans.first_position(), first);
        ASSERT_EQ(spans.end_position(), end);
        check_spans(static_cast<int>(layer), head, spans);
        check_spans(static_cast<int>(layer), head, spans.within(first + 1, end - 1));
        ASSERT_TRUE(spans.within(end, end + 1).empty());
        ASSERT_TRUE(spans.within(first - 2, first).empty());
      }
    }
    if (!cache_.has_states() || cache_.length() == 0) return;
    const int layer = static_cast<int>(layers_.size());
    ASSERT_EQ(cache_.state<float>(layer, 0).size(), 6U);
    ASSERT_EQ(cache_.state<std::int32_t>(layer, 1).size(), 5U);
    for (const float value : cache_.state<float>(layer, 0)) ASSERT_EQ(value, sum());
    for (const std::int32_t value : cache_.state<std::int32_t>(layer, 1)) ASSERT_EQ(value, cache_.length());
  }

  KvCache& cache() { return cache_; }

 private:
  static const std::byte* as_bytes(const std::vector<float>& v) { return reinterpret_cast<const std::byte*>(v.data()); }

  /// What the float state is after the tokens: it depends on all of them.
  float sum() const {
    float sum = 0;
    for (const float stamp : stamps_) sum = 0.75f * sum + stamp + 1;
    return sum;
  }

  float expected(int layer, bool is_value, std::int64_t position, std::int64_t head, std::int64_t i) const {
    return element(layer, is_value, position, head, i) + stamps_[static_cast<std::size_t>(position)];
  }

  std::vector<float> rows(int layer, bool is_value, std::int64_t count) const {
    const KvLayerConfig& c = layers_[static_cast<std::size_t>(layer)];
    std::vector<float> all;
    for (std::int64_t t = 0; t < count; ++t) {
      for (std::int64_t head = 0; head < c.n_kv_heads; ++head) {
        for (std::int64_t i = 0; i < c.head_dim; ++i)
          all.push_back(expected(layer, is_value, cache_.length() + t, head, i));
      }
    }
    return all;
  }

  /// The spans are ascending, without gaps, in as few pieces as there are blocks, and hold the appended elements.
  void check_spans(int layer, std::int64_t head, const KvSpans& spans) const {
    std::int64_t position = spans.first_position(), n = 0;
    for (const KvSpan& span : spans) {
      ASSERT_EQ(span.first_position, position);
      ASSERT_GT(span.keys.rows, 0);
      ASSERT_EQ(span.keys.rows, span.values.rows);
      check_span(layer, head, span);
      position = span.end_position();
      ++n;
    }
    ASSERT_EQ(position, spans.end_position());
    const std::int64_t length = cache_.block_length();
    if (n > 0) {
      ASSERT_EQ(n, (position - 1) / length - spans.first_position() / length + 1);
    }
  }

  void check_span(int layer, std::int64_t head, const KvSpan& span) const {
    const std::int64_t head_dim = layers_[static_cast<std::size_t>(layer)].head_dim;
    for (const bool is_value : {false, true}) {
      const MatrixView view = is_value ? span.values.view() : span.keys.view();
      ASSERT_EQ(view.cols, head_dim);
      for (std::int64_t r = 0; r < view.rows; ++r) {
        for (std::int64_t i = 0; i < head_dim; ++i) {
          float got = 0;
          std::memcpy(&got, view.at(r, i), sizeof got);
          ASSERT_EQ(got, expected(layer, is_value, span.first_position + r, head, i))
              << "position " << span.first_position + r;
        }
      }
    }
  }

  std::vector<KvLayerConfig> layers_;
  KvCache cache_;
  std::vector<float> stamps_;  // of each position
};

TEST(KvCache, HoldsTheLastPositionsAfterAnyChunks) {
  std::uint64_t draw = 0;
  const auto up_to = [&](std::int64_t n) {
    return 1 + static_cast<std::int64_t>(uniform(3, 0, draw++) * static_cast<double>(n));
  };
  for (std::int64_t window = 1; window <= 7; ++window) {
    for (const std::int64_t capacity : {window / 2 + 1, window, window + 1, 5 * window + 3}) {
      for (int trial = 0; trial < 8; ++trial) {
        Sequence sequence({{2, 3, window}, {1, 5, std::nullopt}, {3, 1, window + 1}}, capacity, 1 + trial % 5);
        sequence.check();
        while (sequence.cache().length() < capacity) {
          sequence.feed(std::min(up_to(2 * window), capacity - sequence.cache().length()));
          sequence.check();
          if (testing::Test::HasFatalFailure()) FAIL() << "window " << window << ", capacity " << capacity;
        }
      }
    }
  }
}

TEST(KvCache, HoldsTheLastPositionsAfterChunksOfEverySize) {
  for (std::int64_t window = 1; window <= 7; ++window) {
    for (std::int64_t chunk = 1; chunk <= 2 * window; ++chunk) {
      Sequence sequence({{2, 2, window}, {2, 2, std::nullopt}}, 6 * window);
      while (sequence.cache().length() + chunk <= 6 * window) {
        sequence.feed(chunk);
        sequence.check();
      }
    }
  }
}

TEST(KvCache, AppendedTokensAreNotVisibleBeforeAdvance) {
  KvCache cache({KvLayerConfig{1, 1, 4}}, 8, KvType::f32);
  const float one = 1;
  cache.append(0, {{reinterpret_cast<const std::byte*>(&one)}}, {{reinterpret_cast<const std::byte*>(&one)}}, 1);
  EXPECT_EQ(cache.length(), 0);
  EXPECT_TRUE(cache.past(0, 0).empty());
}

TEST(KvCache, TwoByteElements) {
  for (const KvType type : {KvType::f16, KvType::bf16}) {
    KvCache cache({KvLayerConfig{2, 3, 2}}, 10, type);
    for (std::uint16_t t = 0; t < 5; ++t) {
      std::uint16_t keys[6], values[6];
      for (std::uint16_t i = 0; i < 6; ++i)
        keys[i] = static_cast<std::uint16_t>(t * 10 + i), values[i] = static_cast<std::uint16_t>(keys[i] + 100);
      cache.append(0, {{reinterpret_cast<const std::byte*>(keys)}}, {{reinterpret_cast<const std::byte*>(values)}}, 1);
      cache.advance(1);
    }
    for (const KvSpan& span : cache.past(0, 1)) {
      EXPECT_EQ(span.keys.type, type);
      for (std::int64_t r = 0; r < span.keys.rows; ++r) {
        std::uint16_t key = 0, value = 0;
        std::memcpy(&key, span.keys.view().at(r, 2), 2);
        std::memcpy(&value, span.values.view().at(r, 2), 2);
        EXPECT_EQ(key, (span.first_position + r) * 10 + 5);
        EXPECT_EQ(value, key + 100);
      }
    }
    EXPECT_EQ(cache.bytes(), 2 * 2 * 2 * 3 * 2);
  }
}

/// Keys and values of different types and widths. The bytes of a row are one number.
TEST(KvCache, IntegerRowsAreKeptWhole) {
  constexpr std::int64_t kHeads = 2, kWindow = 3, kTokens = 8;
  KvLayerConfig layer{kHeads, 40, kWindow};
  layer.value_dim = 70;
  KvCache cache({layer}, 10, {KvType::int8, KvType::int4});
  const std::int64_t key_bytes = 40 + 2 * 2, value_bytes = 2 * 16 + 8 + 3 * 3;
  for (std::int64_t t = 0; t < kTokens; t += 2) {  // two at a time, of which the last three are kept
    std::vector<std::byte> keys, values;
    for (std::int64_t row = t * kHeads; row < (t + 2) * kHeads; ++row) {
      keys.insert(keys.end(), static_cast<std::size_t>(key_bytes), static_cast<std::byte>(row));
      values.insert(values.end(), static_cast<std::size_t>(value_bytes), static_cast<std::byte>(100 + row));
    }
    cache.append(0, {keys.data(), KvType::int8, kHeads, 40}, {values.data(), KvType::int4, kHeads, 70}, 2);
    cache.advance(2);
  }
  for (std::int64_t head = 0; head < kHeads; ++head) {
    std::int64_t n = 0;
    for (const KvSpan& span : cache.past(0, head)) {
      EXPECT_EQ(span.keys.stride, key_bytes);
      EXPECT_EQ(span.values.stride, value_bytes);
      for (std::int64_t r = 0; r < span.keys.rows; ++r, ++n) {
        const std::int64_t row = (span.first_position + r) * kHeads + head;
        for (std::int64_t i = 0; i < key_bytes; ++i) EXPECT_EQ(span.keys.data[r * key_bytes + i], std::byte(row));
        for (std::int64_t i = 0; i < value_bytes; ++i) {
          EXPECT_EQ(span.values.data[r * value_bytes + i], std::byte(100 + row));
        }
      }
    }
    EXPECT_EQ(n, kWindow);
  }
  EXPECT_EQ(cache.bytes(), kHeads * kWindow * (key_bytes + value_bytes));
}

TEST(KvCache, CountsTheBytesOfItsSlots) {
  EXPECT_EQ(KvCache({KvLayerConfig{2, 8, 4}, KvLayerConfig{2, 8, std::nullopt}}, 100, KvType::f32).bytes(),
            2 * 2 * 8 * 4 * (4 + 100));
  EXPECT_EQ(KvCache({KvLayerConfig{2, 8, 4}}, 0, KvType::f32).bytes(), 0);
}

TEST(KvCache, BeyondCapacityThrowsAndWritesNothing) {
  Sequence sequence({{1, 2, 3}, {1, 2, std::nullopt}}, 5);
  sequence.feed(4);
  EXPECT_THROW(sequence.feed(2), OutOfCapacity);
  EXPECT_EQ(sequence.cache().length(), 4);
  sequence.check();
  sequence.feed(1);
  sequence.check();
  EXPECT_THROW(sequence.feed(1), OutOfCapacity);
  KvCache cache({KvLayerConfig{1, 2, 3}}, 5, KvType::f32);
  cache.advance(1);
  EXPECT_THROW(cache.append(0, {}, {}, std::numeric_limits<std::int64_t>::max()), OutOfCapacity);
}

TEST(KvCache, OfCapacityZero) {
  Sequence sequence({{1, 2, 3}, {1, 2, std::nullopt}}, 0);
  sequence.check();
  EXPECT_THROW(sequence.feed(1), OutOfCapacity);
}

TEST(KvCache, ThrowsForImpossibleSizes) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto make = [](KvLayerConfig layer, std::int64_t capacity) { KvCache({layer}, capacity, KvType::f16); };
  EXPECT_THROW(make({1, 1, std::nullopt}, kMost), OutOfCapacity);
  EXPECT_THROW(make({1, 1, std::nullopt}, kMost / 2), OutOfCapacity) << "its bytes just fit in 63 bits";
  EXPECT_THROW(make({kMost, 2, 4}, 10), OutOfCapacity);
  EXPECT_THROW(make({1, 1, std::nullopt}, -1), OutOfCapacity);
  EXPECT_THROW(make({1, 1, -3}, 5), OutOfCapacity);
  EXPECT_THROW(make({1, -1, 3}, 5), OutOfCapacity);
  EXPECT_THROW(KvCache({std::vector<StateConfig>{{"s", {kMost / 4, 2}}}}, 5, KvType::f32), OutOfCapacity);
  EXPECT_THROW(KvCache({std::vector<StateConfig>{{"s", {kMost / 8}}}}, 5, KvType::f32), OutOfCapacity);
}

/// The resident memory of the process, in bytes.
std::int64_t resident_bytes() {
  std::int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * 4096;
}

TEST(KvCache, MemoryIsCommittedOnlyWhenWritten) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "this sanitizer touches all allocated memory";
#endif
  const std::int64_t before = resident_bytes();
  const KvCache cache({KvLayerConfig{8, 256, std::nullopt}}, 1 << 17, KvType::f16);
  EXPECT_EQ(cache.bytes(), std::int64_t{1} << 30);
  EXPECT_LT(resident_bytes() - before, 1 << 26);
}

TEST(KvCache, TruncatesIfTheTokensAreStillThere) {
  Sequence full({{2, 3, std::nullopt}, {1, 4, std::nullopt}}, 20);
  full.feed(12);
  EXPECT_TRUE(full.cache().holds_all());
  ASSERT_EQ(full.truncate(5), 5);
  full.check();
  full.feed(9);
  full.check();
  EXPECT_EQ(full.truncate(0), 0);
  EXPECT_THROW(full.truncate(1), InternalError);

  Sequence window({{2, 3, std::nullopt}, {1, 4, 6}}, 20);
  EXPECT_FALSE(window.cache().holds_all());
  window.feed(9);
  ASSERT_EQ(window.truncate(7), 7) << "blocks before the window are freed with the next tokens";
  window.feed(3);
  window.feed(1);
  ASSERT_EQ(window.truncate(10), 10);
  window.check();
  EXPECT_EQ(window.truncate(10), 10);
  window.feed(1);
  EXPECT_EQ(window.truncate(9), 0) << "the window began at position 3, whose block has been freed";
  window.feed(4);
  window.check();
}

TEST(KvCache, ReturnsToTheNearestSnapshot) {
  for (const std::vector<KvLayerConfig>& layers :
       {std::vector<KvLayerConfig>{}, {{2, 3, std::nullopt}}, {{1, 2, std::nullopt}, {1, 2, 9}}}) {
    KvPool pool(1 << 20, 4);
    Sequence sequence(layers, 600, 4, pool, States::yes);
    EXPECT_FALSE(sequence.cache().holds_all());
    sequence.feed(3);
    sequence.cache().snapshot();
    sequence.feed(4);
    sequence.cache().snapshot();
    sequence.cache().snapshot();
    EXPECT_EQ(sequence.cache().snapshots().size(), 2U);
    sequence.feed(2);
    EXPECT_EQ(sequence.truncate(9), 9) << "nothing is forgotten";
    EXPECT_EQ(sequence.truncate(8), 7);
    sequence.check();
    sequence.feed(1, 16384);
    sequence.check();
    EXPECT_EQ(sequence.truncate(7), 7) << "a snapshot may be used again";
    sequence.check();
    EXPECT_EQ(sequence.truncate(6), 3);
    sequence.check();
    EXPECT_EQ(sequence.truncate(2), 0);
    EXPECT_EQ(sequence.cache().snapshots().size(), 0U);
    sequence.check();
    sequence.feed(256);
    sequence.feed(200);
    sequence.feed(1);
    sequence.check();
    const bool has_window = layers.size() > 1;
    EXPECT_EQ(sequence.truncate(300), has_window ? 0 : 256) << "its window has been freed";
    sequence.check();
  }
}

TEST(KvCache, KeepsSnapshotsOnlyOnRequestAndBounded) {
  KvPool pool(1 << 20, 4);
  constexpr std::int64_t kBlock = 2 * 64;  // of both states
  KvCache cache(with_states({}, States::yes), 1 << 20, KvType::f32, pool);
  const auto feed = [&](std::int64_t n) {
    std::ranges::fill(cache.next_state<float>(0, 0), static_cast<float>(cache.length() + n));
    cache.advance(n);
  };
  for (int i = 0; i < 10; ++i) feed(256);
  cache.snapshot();
  EXPECT_TRUE(cache.snapshots().empty());
  EXPECT_EQ(pool.used_bytes(), 2 * kBlock) << "the current state and the next";
  EXPECT_EQ(cache.snapshot_bytes(), kBlock);
  EXPECT_EQ(cache.bytes(), 2 * (6 + 5) * 4);
  cache.keep_snapshots();
  for (int i = 0; i < 400; ++i) feed(64);
  const std::span<const StateSnapshot> kept = cache.snapshots();
  EXPECT_EQ(kept.size(), StateCache::kMostSnapshots);
  EXPECT_LE(pool.used_bytes(), (std::ssize(kept) + 2) * kBlock);
  EXPECT_EQ(kept.back().length, cache.length());
  for (std::size_t i = 2; i < kept.size(); ++i) {
    const std::int64_t gap = kept[i].length - kept[i - 1].length, distance = cache.length() - kept[i - 1].length;
    EXPECT_LE(gap, std::max<std::int64_t>(256, distance / 2)) << "after " << kept[i - 1].length;
  }
  for (const StateSnapshot& snapshot : kept) {
    KvCache copy(with_states({}, States::yes), 1 << 20, KvType::f32, pool);
    copy.copy_from(cache);
    EXPECT_EQ(copy.truncate(snapshot.length), snapshot.length);
    EXPECT_EQ(copy.state<float>(0, 0).front(), static_cast<float>(snapshot.length));
  }
  cache.drop_snapshots(kept[3].length);
  EXPECT_EQ(cache.snapshots().size(), StateCache::kMostSnapshots - 4);
  cache.drop_snapshots(cache.length());
  cache.snapshot();
  EXPECT_TRUE(cache.snapshots().empty()) << "whoever took the snapshot has it";
}

TEST(KvCache, SnapshotsGiveWayWhenMemoryIsShort) {
  constexpr std::int64_t kState = 2 * 64, kBlock = 2 * 4 * 4 * 4;
  KvPool pool(3 * kState + 2 * kBlock, 4);
  Sequence sequence({{1, 4, std::nullopt}}, 100, 4, pool, States::yes);
  for (int i = 0; i < 5; ++i) {
    sequence.feed(1);
    sequence.cache().snapshot();
    sequence.check();
  }
  EXPECT_EQ(sequence.cache().snapshots().size(), 3U);
  sequence.cache().reserve(5);
  EXPECT_LT(sequence.cache().snapshots().size(), 3U);
  sequence.feed(5);
  sequence.check();
  EXPECT_THROW(sequence.cache().reserve(40), OutOfCapacity);
  sequence.check();
}

TEST(KvCache, StatesAreFoundByLayerNumberAndType) {
  CacheLayerConfig both(KvLayerConfig{1, 2, std::nullopt});
  both.states = {{"s", {3}}};
  KvCache cache({KvLayerConfig{1, 2, std::nullopt}, CacheLayerConfig(), both}, 8, KvType::f32);
  EXPECT_EQ(cache.next_state<float>(2, 0).size(), 3U);
  EXPECT_THROW(cache.next_state<float>(2, 1), InternalError);
  EXPECT_THROW(cache.next_state<std::int32_t>(2, 0), InternalError);
  EXPECT_THROW(cache.next_state<float>(0, 0), InternalError);
  EXPECT_TRUE(cache.past(2, 0).empty());
  EXPECT_THROW(cache.past(1, 0), InternalError);
}

/// Copies share blocks. Each continues with tokens of its own, which the others do not see.
TEST(KvCache, CopiesShareBlocksUntilTheyWrite) {
  const std::vector<KvLayerConfig> layers = {{2, 3, std::nullopt}, {1, 2, 5}};
  for (std::int64_t i = 0; i < 20; ++i) {
    const std::int64_t length = i % 10;
    const States states = i < 10 ? States::no : States::yes;
    KvPool pool(1 << 20, 4);
    Sequence first(layers, 20, 4, pool, states);
    if (length > 0) first.feed(length);
    first.cache().snapshot();
    const std::int64_t used = pool.used_bytes();
    Sequence second(layers, 20, 4, pool, states);
    second.copy_from(first);
    second.check();
    EXPECT_EQ(pool.used_bytes(), used) << "a copy takes no memory";
    second.feed(3, 16384);
    second.check();
    first.check();
    first.feed(7);
    first.check();
    second.check();
    ASSERT_EQ(second.truncate(length), length);
    second.feed(1);
    second.check();
    first.check();
  }
}

TEST(KvCache, BlocksBeforeTheWindowAreFreed) {
  KvPool pool(1 << 20, 4);
  Sequence sequence({{1, 4, 6}}, 1000, 4, pool);
  constexpr std::int64_t kBlock = 2 * 4 * 4 * 4;  // keys and values of 4 positions
  for (int i = 0; i < 100; ++i) {
    sequence.feed(1);
    EXPECT_LE(pool.used_bytes(), 3 * kBlock) << "6 positions are in 3 blocks of 4 at most";
    sequence.check();
  }
  sequence.feed(50);
  sequence.feed(1);
  EXPECT_LE(pool.used_bytes(), 3 * kBlock);
  sequence.check();
}

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
