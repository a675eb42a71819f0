// What every way of multiplying rows with a stored matrix is given.
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
  float* scratch;  // kScratchFloats, or null
};

constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t larger(std::int64_t a, std::int64_t b) { return a < b ? b : a; }

/// Where what is asked for ahead of its use goes: __builtin_prefetch's locality.
constexpr int kFirstCache = 3, kSecondCache = 2;

/// The size of the parts when n is cut evenly into parts of whole `unit`s, each at most `most`, whole units too.
constexpr std::int64_t even_part(std::int64_t n, std::int64_t most, std::int64_t unit) {
  if (n <= most) return (n + unit - 1) / unit * unit;  // without a division: attention asks often
  const std::int64_t parts = (n + most - 1) / most;
  return ((n + parts - 1) / parts + unit - 1) / unit * unit;
}

struct Range {
  std::int64_t begin, end;
};

}  // namespace
}  // namespace vitrine
