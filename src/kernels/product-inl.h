// The operands of a product of rows with a stored matrix, shared by all algorithms.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vitrine {
namespace {

/// Σ_k x[t, k] · w[r, k] for y[t, r].
struct Product {
  const float* x;
  std::int64_t ldx;
  const std::byte* w;
  std::int64_t w_stride;  // bytes from one row to the next; transposed: from one k to the next
  std::int64_t cols;
  float* y;
  std::int64_t ldy;
  float* scratch;  // kScratchFloats
};

constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t larger(std::int64_t a, std::int64_t b) { return a < b ? b : a; }

/// The cache that a prefetch fills: the locality argument of __builtin_prefetch.
constexpr int kFirstCache = 3, kSecondCache = 2, kNoPrefetch = 0;

/// The size of a part when n is divided evenly into parts of at most `most`; both are multiples of `unit`.
constexpr std::int64_t even_part(std::int64_t n, std::int64_t most, std::int64_t unit) {
  if (n <= most) return (n + unit - 1) / unit * unit;  // avoids two divisions on attention's path
  const std::int64_t parts = (n + most - 1) / most;
  return ((n + parts - 1) / parts + unit - 1) / unit * unit;
}

struct Range {
  std::int64_t begin, end;
};

}  // namespace
}  // namespace vitrine
