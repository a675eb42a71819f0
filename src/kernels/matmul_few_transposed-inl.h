// Products of few rows with a transposed matrix, which is read once, in its stored order. The sums and their order are
// those of the row-major product.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"
#include "kernels/product-inl.h"
#include "kernels/stored-inl.h"

namespace vitrine {
namespace {

// Here, a lane of the row-major product is a row of outputs, one row for each k mod 16. These rows are in scratch
// memory, so each visit to a row adds several k.
constexpr int kLaneFloats = 1152;  // outputs of all tokens, for each lane: 72 KiB
constexpr int kDeep = 8;           // k of one lane at a time
/// Outputs of a token that are summed at a time.
constexpr std::int64_t lane_width(int tokens) { return kLaneFloats / tokens / kLanes * kLanes; }

/// The distance of the columns of two lanes that follow each other.
template <DType kType>
constexpr std::int64_t kApart = kGroup<kType> / kLanes;
/// The column of lane 0 in step i of the order.
template <DType kType>
constexpr std::int64_t column_of_step(std::int64_t i) {
  return kType == kPairs ? i / 2 * kGroup<kType> + 1 - i % 2 : i * kLanes;
}

/// lanes[t][l][o] += x[t, k] · w[k, o] for the k of lane l in kSteps steps, `width` outputs. x begins at the first of
/// these k, w at the lane's first k in storage.
template <DType kType, int kTokens, int kSteps>
[[gnu::always_inline]] inline void add_to_lane(const float* x, std::int64_t ldx, const std::byte* w,
                                               std::int64_t stride, std::int64_t ahead, std::int64_t width,
                                               float* lane) {
  constexpr std::int64_t kTokenFloats = kLanes * lane_width(kTokens);
  Vec x_k[kTokens][kSteps];
  unrolled<kTokens>([&](auto t) { unrolled<kSteps>([&](auto i) { x_k[t][i] = broadcast(x[t * ldx + i * kLanes]); }); });
  const auto group = [&](std::int64_t o, auto load_w) __attribute__((always_inline)) {
    Vec w_k[kSteps];
    unrolled<kSteps>([&](auto i) { w_k[i] = load_w(w + column_of_step<kType>(i) * stride + o * kSize<kType>); });
    unrolled<kTokens>([&](auto t) {
      float* const at = lane + t * kTokenFloats + o;
      Vec sum = load_f32(at);
      unrolled<kSteps>([&](auto i) { sum = fma(x_k[t][i], w_k[i], sum); });
      store_f32(sum, at);
    });
  };
  std::int64_t o = 0;
  for (; o + kLanes <= width; o += kLanes) {
    unrolled<kSteps>([&](auto i) {
      __builtin_prefetch(w + ahead + column_of_step<kType>(i) * stride + o * kSize<kType>, 0, kSecondCache);
    });
    group(o, [](const std::byte* from) { return load<kStored<kType>>(from); });
  }
  if (o < width) {
    group(o, [rest = static_cast<int>(width - o)](const std::byte* from) {
      return load_first<kStored<kType>>(from, rest);
    });
  }
}

/// Adds to sixteen lanes, kSteps k each, from k on.
template <DType kType, int kTokens, int kSteps>
void add_to_lanes(const Product& p, std::int64_t k, const std::byte* w, std::int64_t width, float* lanes) {
  constexpr std::int64_t kLane = kApart<kType>;
  for (std::int64_t l = 0; l < kLanes; ++l) {
    const std::int64_t ahead = (l + 1 < kLanes ? kLane : kSteps * kLanes - (kLanes - 1) * kLane) * p.w_stride;
    add_to_lane<kType, kTokens, kSteps>(p.x + k + l, p.ldx, w + (k + l * kLane) * p.w_stride, p.w_stride, ahead, width,
                                        lanes + l * lane_width(kTokens));
  }
}

/// Adds the k after the last whole group. The padding is multiplied, too, because it may change −0 into +0.
template <DType kType, int kTokens>
void add_tail(const Product& p, std::int64_t k, const std::byte* w, std::int64_t width, float* lanes) {
  constexpr std::int64_t kWidth = lane_width(kTokens), kLane = kApart<kType>;
  for (std::int64_t l = 0; l < kLanes; ++l) {
    for (std::int64_t i = 0; i < kLane; ++i) {
      const std::int64_t column = k + l * kLane + column_of_step<kType>(i);
      if (column < p.cols) {
        const std::byte* const first = w + (column - column_of_step<kType>(0)) * p.w_stride;
        add_to_lane<kType, kTokens, 1>(p.x + k + i * kLanes + l, p.ldx, first, p.w_stride, 0, width,
                                       lanes + l * kWidth);
        continue;
      }
      for (int t = 0; t < kTokens; ++t) {
        float* const lane = lanes + (t * kLanes + l) * kWidth;
        for (std::int64_t o = 0; o < width; o += kLanes) store_f32(fma(zero(), zero(), load_f32(lane + o)), lane + o);
      }
    }
  }
}

/// y[o] = the sum of the lanes of output o, in the order of the tree.
inline void sum_lanes_of_block(const float* lanes, std::int64_t lane_floats, std::int64_t width, float* y) {
  for (std::int64_t o = 0; o < width; o += kLanes) {
    Vec sum[kLanes];
    unrolled<kLanes>([&](auto l) { sum[l] = load_f32(lanes + l * lane_floats + o); });
    unrolled<8>([&](auto l) { sum[l] = sum[l] + sum[l + 8]; });
    unrolled<4>([&](auto l) { sum[l] = sum[l] + sum[l + 4]; });
    unrolled<2>([&](auto l) { sum[l] = sum[l] + sum[l + 2]; });
    store_f32_first(sum[0] + sum[1], y + o, static_cast<int>(smaller(kLanes, width - o)));
  }
}

/// kTokens tokens.
template <DType kType, int kTokens>
void few_transposed(const Product& p, std::int64_t rows) {
  constexpr std::int64_t kWidth = lane_width(kTokens);
  static_assert(kTokens * kLanes * kWidth <= kScratchFloats);
  float* const lanes = p.scratch;
  const std::int64_t part = even_part(rows, kWidth, kLanes);
  for (std::int64_t row = 0; row < rows; row += part) {
    const std::int64_t width = smaller(part, rows - row);
    const std::byte* w = p.w + row * kSize<kType>;
    for (int i = 0; i < kTokens * kLanes; ++i) {
      for (std::int64_t o = 0; o < width; o += kLanes) store_f32(zero(), lanes + i * kWidth + o);
    }
    std::int64_t k = 0;
    for (; k + kDeep * kLanes <= p.cols; k += kDeep * kLanes) {
      add_to_lanes<kType, kTokens, kDeep>(p, k, w, width, lanes);
    }
    for (; k + kGroup<kType> <= p.cols; k += kGroup<kType>) {
      add_to_lanes<kType, kTokens, kApart<kType>>(p, k, w, width, lanes);
    }
    if (k < p.cols) add_tail<kType, kTokens>(p, k, w, width, lanes);
    for (int t = 0; t < kTokens; ++t) {
      sum_lanes_of_block(lanes + t * kLanes * kWidth, kWidth, width, p.y + t * p.ldy + row);
    }
  }
}

/// All tokens, in groups of at most kTokens; each group reads w once.
template <DType kType, int kTokens>
void matmul_few_transposed(Product p, std::int64_t tokens, std::int64_t rows) {
  for (; tokens >= kTokens; tokens -= kTokens, p.x += kTokens * p.ldx, p.y += kTokens * p.ldy) {
    few_transposed<kType, kTokens>(p, rows);
  }
  if constexpr (kTokens > 1) {
    if (tokens > 0) matmul_few_transposed<kType, kTokens - 1>(p, tokens, rows);
  }
}

}  // namespace
}  // namespace vitrine
