// Quantizes rows: sixteen parts at a time, their weights, the search of each format, and the bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/quantize_min-inl.h"
#include "quant/pack.h"

namespace vitrine {
namespace {

/// The weight of the squared error of an element x: that of the importance matrix, or 1, times
enum class Weighting : std::uint8_t {
  flat,       ///< 1
  square,     ///< x² + twice the mean square of the part
  size,       ///< |x| + the root mean square of the part
  amplitude,  ///< √(x² + twice the mean square of the super-block)
};

struct QuantizedRows {
  const float* x;
  std::int64_t cols;
  const float* importance;  // of a row's elements; may be null
  std::byte* y;
  std::int64_t count;      // elements of all rows
  float importance_scale;  // makes their mean 1
};

/// Added to every importance, whose mean is 1: an input that is always 0 must not make its elements arbitrary.
constexpr float kLeastImportance = 1e-5F;
constexpr double kNoImportance = 1e-30;  // a smaller mean counts as none: no float would make it 1

/// Elements [begin, begin + 16 parts) of the rows. Parts beyond the end are zero.
template <int kSize, int kGroup>
void load_parts(const QuantizedRows& rows, std::int64_t begin, Weighting weighting, Parts<kSize>& to) {
  static constexpr float kZeros[kSize] = {};
  const float *x[kLanes], *importance[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const std::int64_t at = begin + l * kSize;
    x[l] = at < rows.count ? rows.x + at : kZeros;
    importance[l] = at < rows.count && rows.importance != nullptr ? rows.importance + at % rows.cols : kZeros;
  }
  const auto load = [](const float* const* from, Vec* columns) {
    for (int k = 0; k < kSize; k += kLanes) {
      Vec square[kLanes];
      for (int l = 0; l < kLanes; ++l) square[l] = load_f32(from[l] + k);
      transpose(square);
      for (int i = 0; i < kLanes; ++i) columns[k + i] = square[i];
    }
  };
  load(x, to.x);
  load(importance, to.w);
  Vec squares = zero();
  for (int i = 0; i < kSize; ++i) squares = fma(to.x[i], to.x[i], squares);
  const Vec mean_square = squares * broadcast(1.0F / kSize), rms = sqrt(mean_square);
  const Vec twice_mean = sum_of_group<kGroup>(squares) * broadcast(2.0F / (kSize * kGroup));
  for (int i = 0; i < kSize; ++i) {
    Vec weight = broadcast(1);
    if (weighting == Weighting::square) weight = fma(to.x[i], to.x[i], broadcast(2) * mean_square);
    if (weighting == Weighting::size) weight = abs(to.x[i]) + rms;
    if (weighting == Weighting::amplitude) weight = sqrt(fma(to.x[i], to.x[i], twice_mean));
    if (rows.importance != nullptr) {
      weight = fma(to.w[i], broadcast(rows.importance_scale), broadcast(kLeastImportance)) * weight;
    }
    to.w[i] = weight;
  }
}

/// Stores columns of codes as parts, one after another.
template <int kSize>
void store_codes(const Vec (&columns)[kSize], std::uint8_t* to) {
  for (int k = 0; k < kSize; k += kLanes) {
    Vec square[kLanes];
    for (int i = 0; i < kLanes; ++i) square[i] = columns[k + i];
    transpose(square);
    for (int l = 0; l < kLanes; ++l) store_i8(square[l], to + l * kSize + k);
  }
}

/// What is stored of sixteen parts.
template <int kSize>
struct StoredParts {
  std::uint8_t codes[kLanes * kSize];
  float scales[kLanes], mins[kLanes];      // integers
  std::uint16_t d[kLanes], d_min[kLanes];  // the same in each part of a super-block
  float largest[kLanes];                   // magnitudes of the elements
};

/// Writes the blocks of the parts that exist. Returns false if a scale is out of range.
template <DType kType, int kSize, int kGroup>
bool write_blocks(const StoredParts<kSize>& from, const QuantizedRows& rows, std::int64_t begin) {
  constexpr BlockSize kBlock = block_size(kType);
  static_assert(kBlock.elements == kSize * kGroup);
  constexpr std::uint16_t kInfinite = 0x7C00;
  for (int first = 0; first < kLanes; first += kGroup) {
    const std::int64_t at = begin + first * kSize;
    if (at >= rows.count) break;
    BlockIntegers block;
    block.d = from.d[first];
    block.d_min = from.d_min[first];
    if ((block.d & kInfinite) == kInfinite || (block.d_min & kInfinite) == kInfinite) return false;
    for (int i = 0; i < kGroup; ++i) {  // the search finds no scale for elements that are too large
      if (block.d == 0 && block.d_min == 0 && from.largest[first + i] > 1) return false;
    }
    __builtin_memcpy(block.codes, from.codes + first * kSize, static_cast<std::size_t>(kSize * kGroup));
    for (int i = 0; i < kGroup; ++i) {
      block.scales[i] = static_cast<std::int8_t>(from.scales[first + i]);
      block.mins[i] = static_cast<std::uint8_t>(from.mins[first + i]);
    }
    pack_block(kType, block, rows.y + at / kBlock.elements * kBlock.bytes);
  }
  return true;
}

/// Quantizes sixteen parts at a time: choose(parts, stored) makes all but the bytes.
template <DType kType, int kSize, int kGroup, class Choose>
bool quantize_parts(const QuantizedRows& rows, Weighting weighting, Choose choose) {
  for (std::int64_t begin = 0; begin < rows.count; begin += kLanes * kSize) {
    Parts<kSize> parts;
    load_parts<kSize, kGroup>(rows, begin, weighting, parts);
    StoredParts<kSize> stored = {};
    Vec largest = zero();
    for (int i = 0; i < kSize; ++i) largest = select(less(largest, abs(parts.x[i])), abs(parts.x[i]), largest);
    store_f32(largest, stored.largest);
    choose(parts, stored);
    if (!write_blocks<kType, kSize, kGroup>(stored, rows, begin)) return false;
  }
  return true;
}

template <class Levels, int kSize>
void store_levels(const Parts<kSize>& parts, Vec step, StoredParts<kSize>& to) {
  Vec codes[kSize];
  const Vec inverse = divided(broadcast(1), step);
  for (int i = 0; i < kSize; ++i) codes[i] = Levels::code(parts.x[i] * inverse);
  store_codes(codes, to.codes);
}

template <int kMax, int kSize>
void store_levels_above_min(const Parts<kSize>& parts, Vec step, Vec min, StoredParts<kSize>& to) {
  Vec codes[kSize];
  const Vec inverse = divided(broadcast(1), step);
  for (int i = 0; i < kSize; ++i) codes[i] = code_of<kMax>(parts.x[i], min, inverse);
  store_codes(codes, to.codes);
}

/// A block is one part.
template <DType kType, class Levels>
bool quantize_scaled(const QuantizedRows& rows, Weighting weighting) {
  return quantize_parts<kType, 32, 1>(rows, weighting, [](const Parts<32>& parts, StoredParts<32>& to) {
    const Vec d = choose_half_scale<Levels>(parts);
    store_levels<Levels>(parts, d, to);
    store_f16(d, to.d);
  });
}

template <DType kType, int kMax>
bool quantize_with_min(const QuantizedRows& rows, Weighting weighting) {
  return quantize_parts<kType, 32, 1>(rows, weighting, [](const Parts<32>& parts, StoredParts<32>& to) {
    const MinFit fit = choose_half_scale_and_min<kMax>(parts);
    store_levels_above_min<kMax>(parts, fit.scale, fit.min, to);
    store_f16(fit.scale, to.d);
    store_f16(zero() - fit.min, to.d_min);
  });
}

/// A block is a super-block.
template <DType kType, class Levels, int kLow>
bool quantize_super(const QuantizedRows& rows, Weighting weighting) {
  constexpr int kSize = part_size(kType), kGroup = 256 / kSize;
  return quantize_parts<kType, kSize, kGroup>(rows, weighting, [](const Parts<kSize>& parts, StoredParts<kSize>& to) {
    const ScaleChoice choice = choose_scales<Levels, kGroup, kLow>(parts);
    store_levels<Levels>(parts, choice.d * choice.integer, to);
    store_f16(choice.d, to.d);
    store_f32(choice.integer, to.scales);
  });
}

template <DType kType, int kMax, int kIntegers>
bool quantize_super_with_min(const QuantizedRows& rows, Weighting weighting) {
  constexpr int kSize = part_size(kType), kGroup = 256 / kSize;
  return quantize_parts<kType, kSize, kGroup>(rows, weighting, [](const Parts<kSize>& parts, StoredParts<kSize>& to) {
    const MinChoice choice = choose_scales_and_mins<kMax, kGroup, kIntegers>(parts);
    store_levels_above_min<kMax>(parts, choice.d * choice.scale, choice.d_min * choice.min, to);
    store_f16(choice.d, to.d);
    store_f16(choice.d_min, to.d_min);
    store_f32(choice.scale, to.scales);
    store_f32(choice.min, to.mins);
  });
}

bool quantize(DType dtype, const float* x, std::int64_t rows, std::int64_t cols, const float* importance,
              std::byte* y) {
  double sum = 0;
  for (std::int64_t i = 0; importance != nullptr && i < cols; ++i) sum += static_cast<double>(importance[i]);
  const bool weighted = sum > kNoImportance * static_cast<double>(cols);
  const float scale = weighted ? static_cast<float>(static_cast<double>(cols) / sum) : 0.0F;
  const QuantizedRows all = {x, cols, weighted ? importance : nullptr, y, rows * cols, scale};
  switch (dtype) {
    case DType::q4_0:
      return quantize_scaled<DType::q4_0, Integers<8>>(all, weighted ? Weighting::amplitude : Weighting::flat);
    case DType::q5_0:
      return quantize_scaled<DType::q5_0, Integers<16>>(all, weighted ? Weighting::amplitude : Weighting::flat);
    case DType::q4_1:
      return quantize_with_min<DType::q4_1, 15>(all, weighted ? Weighting::amplitude : Weighting::flat);
    case DType::q5_1:
      return quantize_with_min<DType::q5_1, 31>(all, weighted ? Weighting::amplitude : Weighting::flat);
    case DType::q2_k:
      return quantize_super_with_min<DType::q2_k, 3, 15>(all, weighted ? Weighting::amplitude : Weighting::size);
    case DType::q3_k:
      return quantize_super<DType::q3_k, Integers<4>, -32>(all, weighted ? Weighting::amplitude : Weighting::square);
    case DType::q4_k:
      return quantize_super_with_min<DType::q4_k, 15, 63>(all, weighted ? Weighting::amplitude : Weighting::size);
    case DType::q5_k:
      return quantize_super_with_min<DType::q5_k, 31, 63>(all, weighted ? Weighting::amplitude : Weighting::size);
    case DType::q6_k:
      return quantize_super<DType::q6_k, Integers<32>, -128>(all, weighted ? Weighting::flat : Weighting::square);
    case DType::iq4_nl:
      return quantize_scaled<DType::iq4_nl, NonLinear>(all, weighted ? Weighting::amplitude : Weighting::square);
    case DType::iq4_xs:
      return quantize_super<DType::iq4_xs, NonLinear, -32>(all, weighted ? Weighting::amplitude : Weighting::square);
    default:
      return false;
  }
}

}  // namespace
}  // namespace vitrine
