#include "cache/cached_sequence.h"

namespace vitrine::test {
namespace {

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
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const auto make = [](KvLayerConfig layer, std::int64_t capacity) { KvCache({layer}, capacity, KvType::f16); };
  EXPECT_THROW(make({1, 1, std::nullopt}, kMax), OutOfCapacity);
  EXPECT_THROW(make({1, 1, std::nullopt}, kMax / 2), OutOfCapacity) << "its bytes just fit in 63 bits";
  EXPECT_THROW(make({kMax, 2, 4}, 10), OutOfCapacity);
  EXPECT_THROW(make({1, 1, std::nullopt}, -1), OutOfCapacity);
  EXPECT_THROW(make({1, 1, -3}, 5), OutOfCapacity);
  EXPECT_THROW(make({1, -1, 3}, 5), OutOfCapacity);
  EXPECT_THROW(KvCache({std::vector<StateConfig>{{"s", {kMax / 4, 2}}}}, 5, KvType::f32), OutOfCapacity);
  EXPECT_THROW(KvCache({std::vector<StateConfig>{{"s", {kMax / 8}}}}, 5, KvType::f32), OutOfCapacity);
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
  EXPECT_EQ(kept.size(), StateCache::kMaxSnapshots);
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
  EXPECT_EQ(cache.snapshots().size(), StateCache::kMaxSnapshots - 4);
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

/// A cache whose state is the number of its tokens, and which knows how to compute it within a pass.
void feed_counted(KvCache& cache, std::int64_t n) {
  std::ranges::fill(cache.next_state<float>(0, 0), static_cast<float>(cache.length() + n));
  if (cache.keeps_last_pass()) {
    cache.set_replay(0, 0, [](std::int64_t rows, std::span<const float> before, std::span<float> to) {
      std::ranges::fill(to, (before.empty() ? 0.0f : before.front()) + static_cast<float>(rows));
    });
  }
  cache.advance(n);
}

TEST(KvCache, ReturnsToAnyTokenOfItsLastPass) {
  KvPool pool(1 << 20, 4);
  KvCache cache({std::vector<StateConfig>{{"n", {3}}}}, 100, KvType::f32, pool);
  feed_counted(cache, 5);
  EXPECT_EQ(cache.truncate(4), 0) << "no pass is kept";
  cache.keep_last_pass();
  cache.keep_snapshots();
  feed_counted(cache, 10);
  EXPECT_EQ(cache.truncate(9), 9);
  EXPECT_EQ(cache.state<float>(0, 0).front(), 9.0f);
  cache.snapshot();
  feed_counted(cache, 20);
  for (const std::int64_t length : {28, 27, 12, 10}) {
    KvCache copy({std::vector<StateConfig>{{"n", {3}}}}, 100, KvType::f32, pool);
    EXPECT_EQ(cache.truncate(length), length);
    EXPECT_EQ(cache.state<float>(0, 0).front(), static_cast<float>(length));
    copy.copy_from(cache);
    feed_counted(copy, 1);
    EXPECT_EQ(copy.state<float>(0, 0).front(), static_cast<float>(length + 1)) << "the copy has a state of its own";
  }
  EXPECT_EQ(cache.truncate(9), 9) << "the beginning of the pass";
  EXPECT_EQ(cache.state<float>(0, 0).front(), 9.0f);
  EXPECT_EQ(cache.truncate(8), 0) << "before the pass there is no snapshot";
  feed_counted(cache, 3);
  EXPECT_EQ(cache.truncate(1), 1) << "the pass began with the text";
  std::ranges::fill(cache.next_state<float>(0, 0), 7.0f);
  cache.advance(2);
  EXPECT_EQ(cache.truncate(2), 0) << "a layer did not say how to compute its state";
}

TEST(KvCache, BeginsAfterTokensThatItHasNotSeen) {
  const std::vector<KvLayerConfig> layers = {{2, 3, std::nullopt}, {1, 2, 3}, {1, 2, 4, {}, true}};
  for (const std::int64_t length : {1, 2, 3, 4, 7, 8}) {
    Sequence first(layers, 20, 2, system_kv_memory(), States::yes);
    first.feed(length);
    KvCache cache(with_states(layers, States::yes), 20, KvType::f32, system_kv_memory(), 2);
    cache.begin(length);
    for (int layer = 0; layer < 3; ++layer) {
      const KvLayerConfig& config = layers[static_cast<std::size_t>(layer)];
      for (const bool is_value : {false, true}) {
        std::vector<float> rows;
        const KvSpans kept = first.cache().past(layer, 0);
        for (std::int64_t at = kept.first_position(); at < length; ++at) {
          for (std::int64_t head = 0; head < config.n_kv_heads; ++head) {
            for (std::int64_t i = 0; i < config.head_dim; ++i) rows.push_back(element(layer, is_value, at, head, i));
          }
        }
        const KvBatch batch{reinterpret_cast<const std::byte*>(rows.data())};
        is_value ? cache.set_past_values(layer, batch) : cache.set_past_keys(layer, batch);
      }
    }
    std::ranges::copy(first.cache().state<float>(3, 0), cache.next_state<float>(3, 0).begin());
    std::ranges::copy(first.cache().state<std::int32_t>(3, 1), cache.next_state<std::int32_t>(3, 1).begin());
    cache.advance(0);
    EXPECT_EQ(cache.length(), length);
    first.cache().copy_from(cache);
    first.check();
    first.feed(3);
    first.check();
    EXPECT_THROW(cache.begin(1), InternalError);
  }
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

/// After a whole chunk nothing is kept: the next token begins another.
TEST(KvCache, KeepsOneChunk) {
  constexpr std::int64_t kBlock = 2 * 4 * 4 * 4;
  KvLayerConfig chunks{1, 4, 6};
  chunks.chunked = true;
  for (const std::int64_t step : {1, 5, 6, 17}) {
    KvPool pool(1 << 20, 4);
    Sequence sequence({chunks, {1, 4, 6}}, 1000, 4, pool);
    for (int i = 0; i < 50; ++i) {
      sequence.feed(step);
      sequence.check();
    }
    sequence.feed(1);
    EXPECT_LE(pool.used_bytes(), 6 * kBlock) << "a window and a chunk of 6 positions";
    EXPECT_EQ(sequence.truncate(2), 0) << "the first chunk is gone";
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

}  // namespace
}  // namespace vitrine::test
