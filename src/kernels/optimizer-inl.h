// The update of each element of a parameter from its gradient and its moments.
#pragma once

#include "kernels/rows-inl.h"

namespace vitrine {
namespace {

void adamw(const AdamwStep& step, const float* g, std::int64_t n, float* p, float* m, float* v) {
  const Vec grad_scale = broadcast(step.grad_scale), keep = broadcast(step.keep), down = broadcast(-step.rate);
  const Vec toward = broadcast(step.toward), beta2 = broadcast(step.beta2), toward2 = broadcast(step.toward2);
  const Vec root_divisor = broadcast(step.root_divisor), eps = broadcast(step.eps);
  const auto update = [&](Vec grad, Vec& param, Vec& mean, Vec& square) {
    grad = grad_scale * grad;
    mean = fma(toward, grad - mean, mean);
    square = fma(toward2 * grad, grad, beta2 * square);
    param = fma(down, mean / (sqrt(square) / root_divisor + eps), keep * param);
  };
  each_group(
      n,
      [&](std::int64_t i) {
        Vec param = load_f32(p + i), mean = load_f32(m + i), square = load_f32(v + i);
        update(load_f32(g + i), param, mean, square);
        store_f32(param, p + i);
        store_f32(mean, m + i);
        store_f32(square, v + i);
      },
      [&](std::int64_t i, int count) {
        Vec param = load_f32_first(p + i, count), mean = load_f32_first(m + i, count);
        Vec square = load_f32_first(v + i, count);
        update(load_f32_first(g + i, count), param, mean, square);
        store_f32_first(param, p + i, count);
        store_f32_first(mean, m + i, count);
        store_f32_first(square, v + i, count);
      });
}

void sgd(const SgdStep& step, const float* g, std::int64_t n, float* p, float* m) {
  const Vec grad_scale = broadcast(step.grad_scale), decay = broadcast(step.decay);
  const Vec momentum = broadcast(step.momentum), down = broadcast(-step.rate);
  const auto update = [&](Vec grad, Vec& param, Vec& moment) {
    moment = fma(momentum, moment, fma(decay, param, grad_scale * grad));
    param = fma(down, moment, param);
  };
  each_group(
      n,
      [&](std::int64_t i) {
        Vec param = load_f32(p + i), moment = load_f32(m + i);
        update(load_f32(g + i), param, moment);
        store_f32(param, p + i);
        store_f32(moment, m + i);
      },
      [&](std::int64_t i, int count) {
        Vec param = load_f32_first(p + i, count), moment = load_f32_first(m + i, count);
        update(load_f32_first(g + i, count), param, moment);
        store_f32_first(param, p + i, count);
        store_f32_first(moment, m + i, count);
      });
}

}  // namespace
}  // namespace vitrine
