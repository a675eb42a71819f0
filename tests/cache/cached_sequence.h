// A sequence whose cache is compared with a plain list of its values.
#pragma once

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

/// A distinct value for each element of each token.
inline float element(int layer, bool is_value, std::int64_t position, std::int64_t head, std::int64_t i) {
  return static_cast<float>(((position * 4 + head) * 8 + i) * 4 + layer * 2 + (is_value ? 1 : 0));
}

/// Whether a sequence has states in addition to its keys and values: two in a layer of their own.
enum class States { no, yes };

inline std::vector<CacheLayerConfig> with_states(const std::vector<KvLayerConfig>& layers, States states) {
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
        const std::int64_t end = cache_.length();
        const std::int64_t first = layers_[layer].chunked ? end / kept * kept : end - std::min(end, kept);
        ASSERT_EQ(spans.first_position(), first);
        ASSERT_EQ(spans.end_position(), end);
        check_spans(static_cast<int>(layer), head, spans);
        if (end - first > 2) check_spans(static_cast<int>(layer), head, spans.within(first + 1, end - 1));
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

}  // namespace vitrine::test
