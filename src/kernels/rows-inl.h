// Kernels over one row: sums, elementwise arithmetic, rotation, conversion. Written once, in terms of the vector type.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/math-inl.h"

namespace vitrine {
namespace {

/// step(first element, number of elements) for each group of 16; the last group may be shorter.
template <class Whole, class Part>
void each_group(std::int64_t n, Whole whole, Part part) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) whole(i);
  if (i < n) part(i, static_cast<int>(n - i));
}

/// y[i] = function(x[i])
template <class Function>
void map(const float* x, std::int64_t n, float* y, Function function) {
  each_group(
      n, [&](std::int64_t i) { store_f32(function(load_f32(x + i)), y + i); },
      [&](std::int64_t i, int count) { store_f32_first(function(load_f32_first(x + i, count)), y + i, count); });
}

/// y[i] = function(a[i], b[i])
template <class Function>
void map(const float* a, const float* b, std::int64_t n, float* y, Function function) {
  each_group(
      n, [&](std::int64_t i) { store_f32(function(load_f32(a + i), load_f32(b + i)), y + i); },
      [&](std::int64_t i, int count) {
        store_f32_first(function(load_f32_first(a + i, count), load_f32_first(b + i, count)), y + i, count);
      });
}

/// The tail of a sum: the unused lanes become zero.
inline Vec keep_first(Vec a, int count) { return select(first_lanes(count), a, zero()); }

float sum(const float* x, std::int64_t n) {
  Vec acc = zero();
  each_group(
      n, [&](std::int64_t i) { acc = acc + load_f32(x + i); },
      [&](std::int64_t i, int count) { acc = acc + load_f32_first(x + i, count); });
  return sum_lanes(acc);
}

float sum_squares(const float* x, std::int64_t n, float center) {
  const Vec c = broadcast(center);
  Vec acc = zero();
  each_group(
      n,
      [&](std::int64_t i) {
        const Vec d = load_f32(x + i) - c;
        acc = fma(d, d, acc);
      },
      [&](std::int64_t i, int count) {
        const Vec d = keep_first(load_f32_first(x + i, count) - c, count);
        acc = fma(d, d, acc);
      });
  return sum_lanes(acc);
}

inline Vec larger(Vec a, Vec b) { return select(is_nan(a), a, select(less(b, a), a, b)); }

float max(const float* x, std::int64_t n) {
  const Vec lowest = broadcast(-__builtin_inff());
  Vec best = lowest;
  each_group(
      n, [&](std::int64_t i) { best = larger(best, load_f32(x + i)); },
      [&](std::int64_t i, int count) {
        best = larger(best, select(first_lanes(count), load_f32_first(x + i, count), lowest));
      });
  float lanes[kLanes];
  store_f32(best, lanes);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l)
      lanes[l] = lanes[l] != lanes[l] || lanes[l + half] < lanes[l] ? lanes[l] : lanes[l + half];
  }
  return lanes[0];
}

float exp_sum(const float* x, std::int64_t n, float shift, float* y) {
  const Vec s = broadcast(shift);
  Vec acc = zero();
  each_group(
      n,
      [&](std::int64_t i) {
        const Vec e = exp(load_f32(x + i) - s);
        store_f32(e, y + i);
        acc = acc + e;
      },
      [&](std::int64_t i, int count) {
        const Vec e = exp(load_f32_first(x + i, count) - s);
        store_f32_first(e, y + i, count);
        acc = acc + keep_first(e, count);
      });
  return sum_lanes(acc);
}

bool all_finite(const float* x, std::int64_t n) {
  const Vec infinity = broadcast(__builtin_inff());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if (!all(less(abs(load_f32(x + i)), infinity))) return false;
  }
  return i == n || all(less(abs(load_f32_first(x + i, static_cast<int>(n - i))), infinity));
}

void add(const float* a, const float* b, std::int64_t n, float* y) {
  map(a, b, n, y, [](Vec p, Vec q) { return p + q; });
}

void multiply(const float* a, const float* b, std::int64_t n, float* y) {
  map(a, b, n, y, [](Vec p, Vec q) { return p * q; });
}

void scale(const float* x, std::int64_t n, float factor, float* y) {
  map(x, n, y, [f = broadcast(factor)](Vec v) { return f * v; });
}

void normalize(const float* x, std::int64_t n, float center, float divisor, float* y) {
  map(x, n, y, [c = broadcast(center), d = broadcast(divisor)](Vec v) { return (v - c) / d; });
}

void affine(const float* x, const float* weight, float offset, const float* bias, std::int64_t n, float* y) {
  const Vec o = broadcast(offset);
  if (bias == nullptr) return map(x, weight, n, y, [o](Vec v, Vec w) { return v * (o + w); });
  each_group(
      n, [&](std::int64_t i) { store_f32(fma(load_f32(x + i), o + load_f32(weight + i), load_f32(bias + i)), y + i); },
      [&](std::int64_t i, int count) {
        const Vec factor = o + load_f32_first(weight + i, count);
        store_f32_first(fma(load_f32_first(x + i, count), factor, load_f32_first(bias + i, count)), y + i, count);
      });
}

void softcap(const float* x, std::int64_t n, float cap, float* y) {
  map(x, n, y, [c = broadcast(cap)](Vec v) { return c * tanh(v / c); });
}

void activate(Activation activation, const float* x, std::int64_t n, float* y) {
  switch (activation) {
    case Activation::relu:
      return map(x, n, y, [](Vec v) { return relu(v); });
    case Activation::silu:
      return map(x, n, y, [](Vec v) { return silu(v); });
    case Activation::gelu_tanh:
      return map(x, n, y, [](Vec v) { return gelu_tanh(v); });
    case Activation::gelu_erf:
      return map(x, n, y, [](Vec v) { return gelu_erf(v); });
    case Activation::tanh:
      return map(x, n, y, [](Vec v) { return tanh(v); });
    case Activation::relu_squared:
      return map(x, n, y, [](Vec v) { return relu(v) * relu(v); });
  }
}

void bend(const float* x, std::int64_t n, float most, float* y) {
  map(x, n, y, [most](Vec v) {
    const Vec bounded = at_most(v, most);
    return select(less(zero(), v), zero(), exp_minus_line(bounded) + (bounded - v));
  });
}

void sin_cos(const float* angle, std::int64_t n, float* sin, float* cos) {
  each_group(
      n,
      [&](std::int64_t i) {
        const SinCos both = sin_cos(load_f32(angle + i));
        store_f32(both.sin, sin + i);
        store_f32(both.cos, cos + i);
      },
      [&](std::int64_t i, int count) {
        const SinCos both = sin_cos(load_f32_first(angle + i, count));
        store_f32_first(both.sin, sin + i, count);
        store_f32_first(both.cos, cos + i, count);
      });
}

void rotate_halves(const float* x, const float* cos, const float* sin, std::int64_t pairs, float* out) {
  const float* y = x + pairs;
  float* out_y = out + pairs;
  each_group(
      pairs,
      [&](std::int64_t i) {
        const Vec a = load_f32(x + i), b = load_f32(y + i), c = load_f32(cos + i), s = load_f32(sin + i);
        store_f32(a * c - b * s, out + i);
        store_f32(b * c + a * s, out_y + i);
      },
      [&](std::int64_t i, int count) {
        const Vec a = load_f32_first(x + i, count), b = load_f32_first(y + i, count);
        const Vec c = load_f32_first(cos + i, count), s = load_f32_first(sin + i, count);
        store_f32_first(a * c - b * s, out + i, count);
        store_f32_first(b * c + a * s, out_y + i, count);
      });
}

void rotate_interleaved(const float* x, const float* cos, const float* sin, std::int64_t pairs, float* out) {
  each_group(
      2 * pairs,
      [&](std::int64_t i) {
        const Vec a = load_f32(x + i);
        const Vec c = load_twice_first(cos + i / 2, kLanes / 2), s = load_twice_first(sin + i / 2, kLanes / 2);
        store_f32(subtract_add(a * c, swap_pairs(a) * s), out + i);
      },
      [&](std::int64_t i, int count) {
        const Vec a = load_f32_first(x + i, count);
        const Vec c = load_twice_first(cos + i / 2, count / 2), s = load_twice_first(sin + i / 2, count / 2);
        store_f32_first(subtract_add(a * c, swap_pairs(a) * s), out + i, count);
      });
}

}  // namespace
}  // namespace vitrine
