// The ops as plain formulas over any number type. With complex numbers, the imaginary part of f(x + ih) / h is f'(x) to
// the last bit (Squire & Trapp 1998). Functions that are not analytic (max, ReLU, the choice of experts) depend on the
// real parts alone; erf is extended as for dual numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <optional>
#include <vector>

#include "ops/attend.h"
#include "ops/norm.h"
#include "ops/rope.h"

namespace vitrine::test::reference {

using Complex = std::complex<double>;

template <class T>
double real_of(const T& x) {
  return std::real(x);
}

inline double erf(double x) { return std::erf(x); }
inline Complex erf(const Complex& x) {
  return {std::erf(x.real()), x.imag() * 2.0 * std::numbers::inv_sqrtpi * std::exp(-x.real() * x.real())};
}

template <class T>
T activation(Activation a, const T& x) {
  switch (a) {
    case Activation::relu:
      return real_of(x) > 0 ? x : T(0);
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
    case Activation::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * (1.0 + erf(x / std::numbers::sqrt2));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::relu_squared:
      return real_of(x) > 0 ? x * x : T(0);
  }
  return x;
}

template <class T>
T softcap(double cap, const T& x) {
  return cap * std::tanh(x / cap);
}

/// y[t, o] = Σ_i x[t, i] · w[o, i] + b[o]; b may be empty.
template <class T>
std::vector<T> linear(const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& b, std::size_t in) {
  const std::size_t out = w.size() / in;
  std::vector<T> y;
  for (std::size_t t = 0; t < x.size() / in; ++t) {
    for (std::size_t o = 0; o < out; ++o) {
      T sum = b.empty() ? T(0) : b[o];
      for (std::size_t i = 0; i < in; ++i) sum += x[t * in + i] * w[o * in + i];
      y.push_back(sum);
    }
  }
  return y;
}

/// Rows of d elements, d = 0: as long as w; a longer w has a weight for each of several rows in turn. b may be empty.
template <class T>
std::vector<T> norm(const NormConfig& c, const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& b,
                    std::size_t d = 0) {
  if (d == 0) d = w.size();
  std::vector<T> y;
  for (std::size_t first = 0; first < x.size(); first += d) {
    T mean = 0, squares = 0;
    for (std::size_t i = 0; i < d && c.kind == NormConfig::Kind::layer; ++i) mean += x[first + i] / double(d);
    for (std::size_t i = 0; i < d; ++i) squares += (x[first + i] - mean) * (x[first + i] - mean);
    const T scale = std::sqrt(squares / double(d) + double(c.eps));
    for (std::size_t i = 0; i < d; ++i) {
      const T normalized = (x[first + i] - mean) / scale;
      const std::size_t at = (first + i) % w.size();
      y.push_back(normalized * (double(c.weight_offset) + w[at]) + (b.empty() ? T(0) : b[at]));
    }
  }
  return y;
}

/// x `[T, n_heads, head_dim]`, row t at `positions[t]`.
template <class T>
std::vector<T> rope(const RopeConfig& c, const std::vector<T>& x, std::size_t n_heads, std::size_t head_dim,
                    const std::vector<std::int64_t>& positions) {
  std::vector<T> y = x;
  const auto pairs = static_cast<std::size_t>(c.dim / 2);
  const bool halves = c.layout == RopeConfig::Layout::halves;
  for (std::size_t head = 0; head < positions.size() * n_heads; ++head) {
    for (std::size_t i = 0; i < pairs; ++i) {
      const double angle = double(positions[head / n_heads]) * double(c.frequency[i]);
      const double cos = double(c.magnitude) * std::cos(angle);
      const double sin = (c.reversed ? -1 : 1) * double(c.magnitude) * std::sin(angle);
      const std::size_t a = head * head_dim + (halves ? i : 2 * i), b = halves ? a + pairs : a + 1;
      y[a] = x[a] * cos - x[b] * sin;
      y[b] = x[b] * cos + x[a] * sin;
    }
  }
  return y;
}

/// Softmax over x. The real parts decide which value is the largest.
template <class T>
std::vector<T> softmax(std::vector<T> x) {
  double largest = real_of(x.front());
  for (const T& v : x) largest = std::max(largest, real_of(v));
  T sum = 0;
  for (T& v : x) sum += (v = std::exp(v - largest));
  for (T& v : x) v /= sum;
  return x;
}

/// z `[T, n_heads, head_dim]` for consecutive sequences of these lengths. `sinks`: `[n_heads]`, or empty.
template <class T>
std::vector<T> attend(const AttendConfig& c, const Mask& mask, const std::vector<std::size_t>& lengths,
                      const std::vector<T>& q, const std::vector<T>& k, const std::vector<T>& v,
                      const std::vector<T>& sinks = {}) {
  const auto heads = static_cast<std::size_t>(c.n_heads), kv_heads = static_cast<std::size_t>(c.n_kv_heads);
  const auto dh = static_cast<std::size_t>(c.head_dim);
  std::vector<T> z(q.size());
  std::size_t first = 0;
  for (const std::size_t length : lengths) {
    for (std::size_t row = 0; row < length * heads; ++row) {
      const std::size_t t = row / heads, h = row % heads, g = h / (heads / kv_heads);
      const std::size_t size = mask.window ? std::size_t(*mask.window) : length;
      const std::size_t begin = mask.chunked ? t / size * size : t + 1 > size ? t + 1 - size : 0;
      const std::size_t reach = mask.window ? std::min(length, t + std::size_t(*mask.window)) : length;
      const std::size_t end = mask.kind == Mask::Kind::causal ? t + 1 : reach;
      const auto key = [&](std::size_t s) { return ((first + s) * kv_heads + g) * dh; };
      const std::size_t query = ((first + t) * heads + h) * dh;
      std::vector<T> scores;
      for (std::size_t s = begin; s < end; ++s) {
        T dot = 0;
        for (std::size_t i = 0; i < dh; ++i) dot += q[query + i] * k[key(s) + i];
        dot *= double(c.score_scale);
        scores.push_back(c.softcap ? softcap(double(*c.softcap), dot) : dot);
      }
      if (!sinks.empty()) scores.push_back(sinks[h]);
      const std::vector<T> pattern = softmax(scores);
      for (std::size_t s = begin; s < end; ++s) {
        for (std::size_t i = 0; i < dh; ++i) z[query + i] += pattern[s - begin] * v[key(s) + i];
      }
    }
    first += length;
  }
  return z;
}

/// log Σ exp(x) of each row of n elements.
template <class T>
std::vector<T> log_partition(const std::vector<T>& x, std::size_t n) {
  std::vector<T> y;
  for (std::size_t first = 0; first < x.size(); first += n) {
    double largest = real_of(x[first]);
    for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, real_of(x[first + i]));
    T sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += std::exp(x[first + i] - largest);
    y.push_back(std::log(sum) + largest);
  }
  return y;
}

/// Cross-entropy of each row of n logits against the smoothed target distribution.
template <class T>
std::vector<T> next_token_loss(const std::vector<T>& logits, std::size_t n, const std::vector<std::int32_t>& targets,
                               double smoothing) {
  std::vector<T> loss = log_partition(logits, n);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const T log_z = loss[t];
    loss[t] = 0;
    for (std::size_t v = 0; v < n; ++v) {
      const double target = smoothing / double(n) + (v == std::size_t(targets[t]) ? 1 - smoothing : 0.0);
      loss[t] -= target * (logits[t * n + v] - log_z);
    }
  }
  return loss;
}

/// weights `[T, E]`, chosen `[T, k]`.
template <class T>
std::vector<T> shares_of(const std::vector<T>& weights, std::size_t n_experts, const std::vector<float>& chosen,
                         std::size_t k, bool renormalize) {
  std::vector<T> shares;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    T total = 0;
    const auto weight = [&](std::size_t slot) { return weights[slot / k * n_experts + std::size_t(chosen[slot])]; };
    for (std::size_t r = 0; r < k; ++r) total += weight(i / k * k + r);
    shares.push_back(renormalize ? weight(i) / total : weight(i));
  }
  return shares;
}

}  // namespace vitrine::test::reference
