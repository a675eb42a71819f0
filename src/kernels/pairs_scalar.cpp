// Products in the pair order in plain C++: the definition.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "kernels/pairs.h"
#include "kernels/tables.h"

namespace vitrine {
namespace {

constexpr std::int64_t kLanes = 16, kGroup = 2 * kLanes;

/// Zero with the sign of x if x is subnormal.
float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

/// Element i of bfloat16 numbers in memory that need not be aligned.
float element(const void* from, std::int64_t i) {
  std::uint16_t bits;
  std::memcpy(&bits, static_cast<const std::byte*>(from) + i * std::int64_t{sizeof bits}, sizeof bits);
  return float_from_bf16(bits);
}

void round(const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < (n + kGroup - 1) / kGroup * kGroup; ++i) {
    const std::uint16_t bits = bf16_from_float(i < n ? x[i] : 0.0f);
    std::memcpy(reinterpret_cast<std::byte*>(y) + i * std::int64_t{sizeof bits}, &bits, sizeof bits);
  }
}

float dot(const float* x, const MatrixView& w, std::int64_t r) {
  float lane[kLanes] = {};
  const auto add = [&](std::int64_t l, std::int64_t k) {
    lane[l] = add_product(element(x, k), k < w.cols ? element(w.at(r, k), 0) : 0.0f, lane[l]);
  };
  for (std::int64_t first = 0; first < w.cols; first += kGroup) {
    for (std::int64_t l = 0; l < kLanes; ++l) {
      add(l, first + 2 * l + 1);
      add(l, first + 2 * l);
    }
  }
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) lane[l] = flushed(lane[l] + lane[l + half]);
  }
  return lane[0];
}

void matmul(const float* x, std::int64_t ldx, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy,
            float*) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t r = 0; r < w.rows; ++r) y[t * ldy + r] = dot(x + t * ldx, w, r);
  }
}

}  // namespace

float add_product(float a, float b, float sum) {
  a = flushed(a), b = flushed(b), sum = flushed(sum);
  const float result = std::fma(a, b, sum);
  if (std::fabs(result) != 0x1p-126f) return flushed(result);
  // The nearest subnormal or 2^-126 was 2^-126. With an unbounded exponent, numbers below 2^-126 are twice as dense.
  // The exact result has at most 53 bits here, or is far from the limit.
  const double exact = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(sum);
  return std::fabs(exact) < 0x1p-126 - 0x1p-151 ? std::copysign(0.0f, result) : result;
}

void add_pairs(const PairLanes& lanes, float* sum) {
  for (std::size_t l = 0; l < std::size(lanes.sum); ++l) {
    const auto odd = [](std::uint32_t pair) { return std::bit_cast<float>(pair & 0xFFFF0000u); };
    const auto even = [](std::uint32_t pair) { return std::bit_cast<float>(pair << 16); };
    const std::uint32_t a = lanes.a[l], b = lanes.b[l];
    sum[l] = add_product(even(a), even(b), add_product(odd(a), odd(b), lanes.sum[l]));
  }
}

constinit const PairKernels kScalarPairs = {
    .by_instruction = false,
    .group_floats = kGroup / 2,
    .round = round,
    .matmul = matmul,
    .matmul_packed = nullptr,
    .pack_above = {.f32 = kNeverPack, .half = kNeverPack, .transposed = kNeverPack},
};

}  // namespace vitrine
