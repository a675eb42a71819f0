// Kernels over one row for the backward: derivatives of the activations, and sums that are added to an array.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace vitrine {
namespace {

/// 1 / (1 + exp(−a))
inline Vec sigmoid(Vec a) { return times_sigmoid(broadcast(1.0f), a); }

/// Clamps to bounds beyond which a derivative is 0 or 1 to the last bit, so that no intermediate result overflows.
inline Vec within(Vec x, float limit) { return at_most(at_least(x, -limit), limit); }

/// σ(x) (1 + x (1 − σ(x)))
inline Vec silu_slope(Vec any) {
  const Vec x = within(any, 104.0f);
  const Vec rest = sigmoid(zero() - x);
  return sigmoid(x) * fma(x, rest, broadcast(1.0f));
}

/// gelu_tanh is x σ(u) with u = x (c + c₃ x²): σ(u) (1 + x (1 − σ(u)) (c + 3 c₃ x²))
inline Vec gelu_tanh_slope(Vec any) {
  const Vec x = within(any, 16.0f);
  constexpr float kTwoRootTwoOverPi = 1.59576912f;
  const Vec c = broadcast(kTwoRootTwoOverPi), c3 = broadcast(0.044715f * kTwoRootTwoOverPi);
  const Vec square = x * x;
  const Vec u = x * fma(c3, square, c);
  const Vec du = fma(broadcast(3.0f) * c3, square, c);
  const Vec rest = sigmoid(zero() - u);
  return sigmoid(u) * fma(x * du, rest, broadcast(1.0f));
}

/// Φ(x) + x φ(x): the normal distribution and its density.
inline Vec gelu_erf_slope(Vec any) {
  const Vec x = within(any, 16.0f);
  constexpr float kOneOverRootTwoPi = 0.398942280f;
  const Vec density = broadcast(kOneOverRootTwoPi) * exp(broadcast(-0.5f) * x * x);
  return fma(x, density, broadcast(0.5f) * one_plus_erf(x));
}

void slope(Activation activation, const float* x, std::int64_t n, float* y) {
  switch (activation) {
    case Activation::relu:
      return map(x, n, y, [](Vec v) { return select(less(zero(), v), broadcast(1.0f), zero()); });
    case Activation::silu:
      return map(x, n, y, [](Vec v) { return silu_slope(v); });
    case Activation::gelu_tanh:
      return map(x, n, y, [](Vec v) { return gelu_tanh_slope(v); });
    case Activation::gelu_erf:
      return map(x, n, y, [](Vec v) { return gelu_erf_slope(v); });
    case Activation::tanh:
      return map(x, n, y, [](Vec v) {
        const Vec t = tanh(v);
        return broadcast(1.0f) - t * t;
      });
    case Activation::relu_squared:
      return map(x, n, y, [](Vec v) { return relu(v) + relu(v); });
  }
}

void bend_slope(const float* x, std::int64_t n, float most, float* y) {
  map(x, n, y, [limit = broadcast(most)](Vec v) {
    const Vec minus_one = broadcast(-1.0f);
    const Vec below = exp_minus_line(v) + v;  // exp(v) − 1
    return select(less(zero(), v), zero(), select(less(limit, v), minus_one, below));
  });
}

void sigmoid(const float* x, std::int64_t n, float* y) {
  map(x, n, y, [](Vec v) { return sigmoid(v); });
}

void softplus(const float* x, std::int64_t n, float* y) {
  map(x, n, y, [](Vec v) { return softplus(v); });
}

float dot(const float* a, const float* b, std::int64_t n) {
  Vec acc = zero();
  each_group(
      n, [&](std::int64_t i) { acc = fma(load_f32(a + i), load_f32(b + i), acc); },
      [&](std::int64_t i, int count) { acc = fma(load_f32_first(a + i, count), load_f32_first(b + i, count), acc); });
  return sum_lanes(acc);
}

void multiply_add(const float* a, const float* b, std::int64_t n, float* y) {
  each_group(
      n, [&](std::int64_t i) { store_f32(fma(load_f32(a + i), load_f32(b + i), load_f32(y + i)), y + i); },
      [&](std::int64_t i, int count) {
        const Vec sum = fma(load_f32_first(a + i, count), load_f32_first(b + i, count), load_f32_first(y + i, count));
        store_f32_first(sum, y + i, count);
      });
}

void add_scaled(const float* x, std::int64_t n, float factor, float* y) {
  map(x, y, n, y, [f = broadcast(factor)](Vec v, Vec sum) { return fma(f, v, sum); });
}

}  // namespace
}  // namespace vitrine
