#include "cache/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/rng.h"

namespace vitrine::test {
namespace {

/// A distinct value for each element of each token.
float element(int layer, bool is_value, std::int64_t position, std::int64_t head, std::int64_t i) {
  return static_cast<float>(((position * 4 + head) * 8 + i) * 4 + layer * 2 + (is_value ? 1 : 0));
}

class Sequence {
 public:
  Sequence(std::vector<KvLayerConfig> layers, std::int64_t capacity)
      : layers_(layers), cache_({layers.begin(), layers.end()}, capacity, DType::f32) {}

  void feed(std::int64_t count) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const auto keys = rows(static_cast<int>(layer), false, count),
                 values = rows(static_cast<int>(layer), true, count);
      cache_.append(static_cast<int>(layer), {as_bytes(keys)}, {as_bytes(values)}, count);
    }
    cache_.advance(count);
  }

  /// The spans are ascending, without gaps, end at length(), fill all slots, and hold the appended elements.
  void check() const {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const std::int64_t slots = std::min(cache_.capacity(), layers_[layer].window.value_or(cache_.capacity()));
      for (std::int64_t head = 0; head < layers_[layer].n_kv_heads; ++head) {
        const KvSpans spans = cache_.past(static_cast<int>(layer), head);
        std::int64_t position = cache_.length() - std::min(cache_.length(), slots);
        ASSERT_EQ(spans.begin() == spans.end(), position == cache_.length());
        for (const KvSpan& span : spans) {
          ASSERT_EQ(span.first_position, position);
          ASSERT_GT(span.keys.view.rows, 0);
          ASSERT_EQ(span.keys.view.rows, span.values.view.rows);
          check_span(static_cast<int>(layer), head, span);
          position = span.end_position();
        }
        ASSERT_EQ(position, cache_.length());
        ASSERT_LE(spans.end() - spans.begin(), 2) << "a ring wraps once";
      }
    }
  }

  const KvCache& cache() const { return cache_; }
  bool truncate(std::int64_t length) { return cache_.truncate(length); }

 private:
  static const std::byte* as_bytes(const std::vector<float>& v) { return reinterpret_cast<const std::byte*>(v.data()); }

  std::vector<float> rows(int layer, bool is_value, std::int64_t count) const {
    const KvLayerConfig& c = layers_[static_cast<std::size_t>(layer)];
    std::vector<float> all;
    for (std::int64_t t = 0; t < count; ++t) {
      for (std::int64_t head = 0; head < c.n_kv_heads; ++head) {
        for (std::int64_t i = 0; i < c.head_dim; ++i)
          all.push_back(element(layer, is_value, cache_.length() + t, head, i));
      }
    }
    return all;
  }

  void check_span(int layer, std::int64_t head, const KvSpan& span) const {
    const std::int64_t head_dim = layers_[static_cast<std::size_t>(layer)].head_dim;
    for (const bool is_value : {false, true}) {
      const MatrixView& view = is_value ? span.values.view : span.keys.view;
      ASSERT_EQ(view.cols, head_dim);
      for (std::int64_t r = 0; r < view.rows; ++r) {
        for (std::int64_t i = 0; i < head_dim; ++i) {
          float got = 0;
          std::memcpy(&got, view.at(r, i), sizeof got);
          ASSERT_EQ(got, element(layer, is_value, span.first_position + r, head, i))
              << "position " << span.first_position + r;
        }
      }
    }
  }

  std::vector<KvLayerConfig> layers_;
  KvCache cache_;
};

TEST(KvCache, HoldsTheLastPositionsAfterAnyChunks) {
  std::uint64_t draw = 0;
  const auto up_to = [&](std::int64_t n) {
    return 1 + static_cast<std::int64_t>(uniform(3, 0, draw++) * static_cast<double>(n));
  };
  for (std::int64_t window = 1; window <= 7; ++window) {
    for (const std::int64_t capacity : {window / 2 + 1, window, window + 1, 5 * window + 3}) {
      for (int trial = 0; trial < 8; ++trial) {
        Sequence sequence({{2, 3, window}, {1, 5, std::nullopt}, {3, 1, window + 1}}, capacity);
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
  KvCache cache({KvLayerConfig{1, 1, 4}}, 8, DType::f32);
  const float one = 1;
  cache.append(0, {{reinterpret_cast<const std::byte*>(&one)}}, {{reinterpret_cast<const std::byte*>(&one)}}, 1);
  EXPECT_EQ(cache.length(), 0);
  const KvSpans spans = cache.past(0, 0);
  EXPECT_EQ(spans.begin(), spans.end());
}

TEST(KvCache, TwoByteElements) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    KvCache cache({KvLayerConfig{2, 3, 2}}, 10, dtype);
    for (std::uint16_t t = 0; t < 5; ++t) {
      std::uint16_t keys[6], values[6];
      for (std::uint16_t i = 0; i < 6; ++i)
        keys[i] = static_cast<std::uint16_t>(t * 10 + i), values[i] = static_cast<std::uint16_t>(keys[i] + 100);
      cache.append(0, {{reinterpret_cast<const std::byte*>(keys)}}, {{reinterpret_cast<const std::byte*>(values)}}, 1);
      cache.advance(1);
    }
    for (const KvSpan& span : cache.past(0, 1)) {
      EXPECT_EQ(span.keys.view.dtype, dtype);
      for (std::int64_t r = 0; r < span.keys.view.rows; ++r) {
        std::uint16_t key = 0, value = 0;
        std::memcpy(&key, span.keys.view.at(r, 2), 2);
        std::memcpy(&value, span.values.view.at(r, 2), 2);
        EXPECT_EQ(key, (span.first_position + r) * 10 + 5);
        EXPECT_EQ(value, key + 100);
      }
    }
    EXPECT_EQ(cache.bytes(), 2 * 2 * 2 * 3 * 2);
  }
}

TEST(KvCache, EachI8RowHasItsScale) {
  constexpr std::int64_t kHeads = 2, kDim = 3, kWindow = 3, kTokens = 8;
  KvCache cache({KvLayerConfig{kHeads, kDim, kWindow}}, 10, DType::i8);
  for (std::int64_t t = 0; t < kTokens; t += 2) {  // two at a time into a ring buffer of three
    std::int8_t keys[2 * kHeads * kDim], values[2 * kHeads * kDim];
    float key_scales[2 * kHeads], value_scales[2 * kHeads];
    for (int row = 0; row < 2 * kHeads; ++row) {
      key_scales[row] = static_cast<float>(t * kHeads + row);
      value_scales[row] = -key_scales[row];
      for (int i = 0; i < kDim; ++i) {
        keys[row * kDim + i] = static_cast<std::int8_t>((t * kHeads + row) * 4 + i);
        values[row * kDim + i] = static_cast<std::int8_t>(-keys[row * kDim + i]);
      }
    }
    cache.append(0, {reinterpret_cast<const std::byte*>(keys), key_scales},
                 {reinterpret_cast<const std::byte*>(values), value_scales}, 2);
    cache.advance(2);
  }
  for (std::int64_t head = 0; head < kHeads; ++head) {
    std::int64_t rows = 0;
    for (const KvSpan& span : cache.past(0, head)) {
      for (std::int64_t r = 0; r < span.keys.view.rows; ++r, ++rows) {
        const std::int64_t row = (span.first_position + r) * kHeads + head;
        EXPECT_EQ(span.keys.scales[r * span.keys.scale_stride], static_cast<float>(row));
        EXPECT_EQ(span.values.scales[r * span.values.scale_stride], static_cast<float>(-row));
        EXPECT_EQ(static_cast<std::int8_t>(*span.keys.view.at(r, 2)), row * 4 + 2);
        EXPECT_EQ(static_cast<std::int8_t>(*span.values.view.at(r, 2)), -(row * 4 + 2));
      }
    }
    EXPECT_EQ(rows, kWindow);
  }
  EXPECT_EQ(cache.bytes(), 2 * kHeads * kWindow * (kDim + 4));
}

TEST(KvCache, CountsTheBytesOfItsSlots) {
  EXPECT_EQ(KvCache({KvLayerConfig{2, 8, 4}, KvLayerConfig{2, 8, std::nullopt}}, 100, DType::f32).bytes(),
            2 * 2 * 8 * 4 * (4 + 100));
  EXPECT_EQ(KvCache({KvLayerConfig{2, 8, 4}}, 0, DType::f32).bytes(), 0);
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
  KvCache cache({KvLayerConfig{1, 2, 3}}, 5, DType::f32);
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
  const auto make = [](KvLayerConfig layer, std::int64_t capacity) { KvCache({layer}, capacity, DType::f16); };
  EXPECT_THROW(make({1, 1, std::nullopt}, kMost), OutOfCapacity);
  EXPECT_THROW(make({1, 1, std::nullopt}, kMost / 2), OutOfCapacity) << "its bytes just fit in 63 bits";
  EXPECT_THROW(make({kMost, 2, 4}, 10), OutOfCapacity);
  EXPECT_THROW(make({1, 1, std::nullopt}, -1), OutOfCapacity);
  EXPECT_THROW(make({1, 1, -3}, 5), OutOfCapacity);
  EXPECT_THROW(make({1, -1, 3}, 5), OutOfCapacity);
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
  const KvCache cache({KvLayerConfig{8, 256, std::nullopt}}, 1 << 17, DType::f16);
  EXPECT_EQ(cache.bytes(), std::int64_t{1} << 30);
  EXPECT_LT(resident_bytes() - before, 1 << 26);
}

TEST(KvCache, TruncatesIfTheTokensAreStillThere) {
  Sequence full({{2, 3, std::nullopt}, {1, 4, std::nullopt}}, 20);
  full.feed(12);
  EXPECT_TRUE(full.cache().holds_all());
  ASSERT_TRUE(full.truncate(5));
  EXPECT_EQ(full.cache().length(), 5);
  full.check();
  full.feed(9);
  full.check();
  EXPECT_TRUE(full.truncate(0));
  EXPECT_THROW(full.truncate(1), InternalError);

  Sequence ring({{2, 3, std::nullopt}, {1, 4, 6}}, 20);
  EXPECT_FALSE(ring.cache().holds_all());
  ring.feed(6);
  ASSERT_TRUE(ring.truncate(4)) << "the ring has not wrapped around";
  ring.feed(3);
  EXPECT_FALSE(ring.truncate(6));
  EXPECT_EQ(ring.cache().length(), 7);
  EXPECT_TRUE(ring.truncate(7));
  ring.check();

  KvCache cells({CellLayerConfig{3, false}}, 20, DType::f32);
  cells.advance(2);
  EXPECT_TRUE(cells.truncate(2));
  EXPECT_FALSE(cells.truncate(1));
}

}  // namespace
}  // namespace vitrine::test
