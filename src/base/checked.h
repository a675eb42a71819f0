// Arithmetic on sizes. Those that come from files may overflow: that gives std::nullopt and never wraps around.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

namespace vitrine {

/// a · b, or std::nullopt if a factor is negative or the product does not fit.
inline std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// a + b, or std::nullopt if a summand is negative or the sum does not fit.
inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// The product of all sizes (1 if there are none), or std::nullopt if one is negative or the product does not fit.
inline std::optional<std::int64_t> checked_product(std::span<const std::int64_t> sizes) {
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; })) return std::nullopt;
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  std::optional<std::int64_t> product = 1;
  for (const std::int64_t size : sizes) product = product ? checked_mul(*product, size) : product;
  return product;
}

/// The least multiple of `unit` that is at least `size`.
constexpr std::int64_t round_up(std::int64_t size, std::int64_t unit) { return (size + unit - 1) / unit * unit; }

inline double as_double(std::int64_t size) { return static_cast<double>(size); }

}  // namespace vitrine
