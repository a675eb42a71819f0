#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "ops/rope.h"
#include "spell/op_kinds.h"

namespace vitrine {
namespace {

// rope

/// One element of a pair rotated by +θ (forward) or −θ (backward). Empty for elements that are not rotated.
Cell rotated(const OpView& v, const Seen& x, std::int64_t i, bool backward) {
  const RopeConfig& c = *v.attention().rope;
  const std::int64_t dh = v.attention().head_dim, e = i % dh, half = c.dim / 2;
  const std::int64_t t = i / (v.output().count() / v.facts.n_tokens());
  if (e >= c.dim) return std::nullopt;
  const bool halves = c.layout == RopeConfig::Layout::halves;
  const std::int64_t pair = halves ? e % half : e / 2, step = halves ? half : 1;
  const bool is_second = halves ? e >= half : e % 2 == 1;
  const std::vector<float> frequency = rope_frequency(c.theta, c.dim, c.scaling, v.facts.n_tokens());
  const Arithmetic angle(static_cast<double>(t) * static_cast<double>(frequency[static_cast<std::size_t>(pair)]));
  const Arithmetic along = Arithmetic(x[i]) * function("cos", math::cos, angle);
  const Arithmetic across = Arithmetic(x[is_second ? i - step : i + step]) * function("sin", math::sin, angle);
  const Arithmetic sum = is_second != backward ? along + across : along - across;
  return c.magnitude != 1 ? sum * Arithmetic(c.magnitude) : sum;
}
std::string rope_formula(const OpView&) {
  return "x' = x · cos θ − y · sin θ, y' = y · cos θ + x · sin θ, θ = t · "
         "f_{i}";
}
Cell rope_cell(const OpView& v, std::int64_t i) { return rotated(v, v.input(0), i, false); }
std::string rope_gradient(const OpView&, std::size_t) {
  return "(dx' · cos θ + dy' · sin θ, dy' · cos θ − dx' · sin θ)";
}
Cell rope_gradient_cell(const OpView& v, std::size_t, std::int64_t i) { return rotated(v, v.gradient(), i, true); }

// Attention: q [T, H, dh], k and v [T, K, dh], strips (scores or patterns) [H, T, S]. A step is one segment, so S = T.

struct Heads {
  const ForwardFacts& facts;
  std::int64_t dh, H, K, T, group;

  explicit Heads(const OpView& v)
      : facts(v.facts),
        dh(v.attention().head_dim),
        H(v.attention().n_heads),
        K(v.attention().n_kv_heads),
        T(v.facts.n_tokens()),
        group(H / K) {}
};

std::string score_formula(const OpView&) { return "r_{h,t,s} = (q_{t,h} · k_{s,h}) · scale"; }
/// Element i of the strips: the dot product of a query's row and a key's row, over the elements of a head.
Arithmetic over_elements(const Heads& n, const Seen& of_queries, const Seen& of_keys, std::int64_t i) {
  const std::int64_t h = i / (n.T * n.T), t = i / n.T % n.T, s = i % n.T;
  return dot(n.facts, of_queries, (t * n.H + h) * n.dh, 1, of_keys, (s * n.K + h / n.group) * n.dh, 1, n.dh);
}
Cell score_cell(const OpView& v, std::int64_t i) {
  return over_elements(Heads(v), v.input(0), v.input(1), i) * Arithmetic(v.attention().score_scale);
}
std::string score_gradient(const OpView&, std::size_t k) {
  return k == 0 ? "scale · Σ_{s} dr_{h,t,s} · k_{s,h}" : "scale · Σ_{t} dr_{h,t,s} · q_{t,h}";
}
/// Sums over the heads of a group and the rows of a column of their strips; over_keys(), over a row of one strip.
Arithmetic over_queries(const Heads& n, const Seen& strips, const Seen& of_queries, std::int64_t i) {
  const std::int64_t s = i / (n.K * n.dh), g = i / n.dh % n.K, e = i % n.dh;
  std::vector<Arithmetic> heads;
  for (std::int64_t h = g * n.group; h < (g + 1) * n.group; ++h) {
    heads.push_back(dot(n.facts, strips, h * n.T * n.T + s, n.T, of_queries, h * n.dh + e, n.H * n.dh, n.T));
  }
  return sum_of(heads);
}
Arithmetic over_keys(const Heads& n, const Seen& strips, const Seen& of_keys, std::int64_t i) {
  const std::int64_t t = i / (n.H * n.dh), h = i / n.dh % n.H, e = i % n.dh;
  return dot(n.facts, strips, (h * n.T + t) * n.T, 1, of_keys, h / n.group * n.dh + e, n.K * n.dh, n.T);
}
Cell score_gradient_cell(const OpView& v, std::size_t k, std::int64_t i) {
  const Heads n(v);
  const Arithmetic scale(v.attention().score_scale);
  return scale * (k == 0 ? over_keys(n, v.gradient(), v.input(1), i) : over_queries(n, v.gradient(), v.input(0), i));
}

std::string mask_formula(const OpView& v) {
  const std::string masked = ", \"−∞ where\" s \"is masked\"";
  return (v.attention().softcap ? "s_{h,t,s} = c · tanh({r_{h,t,s}}/{c})" : "s_{h,t,s} = r_{h,t,s}") + masked;
}
Cell mask_cell(const OpView& v, std::int64_t i) {
  const auto cap = v.attention().softcap;
  if (!cap || std::isinf(v.output()[i])) return std::nullopt;
  return Arithmetic(*cap) * function("tanh", math::tanh, Arithmetic(v.input(0)[i]) / Arithmetic(*cap));
}
std::string mask_gradient(const OpView& v, std::size_t) {
  return v.attention().softcap ? "ds_{h,t,s} · (1 − ({s_{h,t,s}}/{c})^{2})" : "";
}

Cell softmax_cell(const OpView& v, std::int64_t i) { return softmax_at(v.input(0), i); }
std::string softmax_formula(const OpView&) { return "p_{i} = {exp(s_{i})}/{Σ_{u} exp(s_{u})}"; }
std::string softmax_gradient(const OpView&, std::size_t) { return "p_{i} · (dp_{i} − Σ_{u} p_{u} · dp_{u})"; }
Cell softmax_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  const Seen &p = v.output(), &dp = v.gradient();
  const std::int64_t n = p.last_size(), first = i / n * n;
  return Arithmetic(p[i]) * (Arithmetic(dp[i]) - dot(v.facts, p, first, 1, dp, first, 1, n));
}

std::string mix_formula(const OpView&) { return "z_{t,h} = Σ_{s} p_{h,t,s} · v_{s,h}"; }
Cell mix_cell(const OpView& v, std::int64_t i) { return over_keys(Heads(v), v.input(0), v.input(1), i); }
std::string mix_gradient(const OpView&, std::size_t k) {
  return k == 0 ? "dz_{t,h} · v_{s,h}" : "Σ_{t} p_{h,t,s} · dz_{t,h}";
}
Cell mix_gradient_cell(const OpView& v, std::size_t k, std::int64_t i) {
  const Heads n(v);
  return k == 0 ? over_elements(n, v.gradient(), v.input(1), i) : over_queries(n, v.input(0), v.gradient(), i);
}

constexpr OpKind kKinds[] = {
    {"rope", "src/ops/rope.cpp", rope_formula, rope_cell, rope_gradient, rope_gradient_cell},
    {"attend_score", "src/ops/attend.cpp", score_formula, score_cell, score_gradient, score_gradient_cell},
    {"attend_mask", "src/ops/attend.cpp", mask_formula, mask_cell, mask_gradient, nullptr},
    {"attend_softmax", "src/ops/attend.cpp", softmax_formula, softmax_cell, softmax_gradient, softmax_gradient_cell},
    {"attend_mix", "src/ops/attend.cpp", mix_formula, mix_cell, mix_gradient, mix_gradient_cell},
    {"softmax_rows", "src/ops/route.cpp", softmax_formula, softmax_cell, softmax_gradient, softmax_gradient_cell},
};

}  // namespace

Cell softmax_at(const Seen& x, std::int64_t i) {
  constexpr float kSafe = 20;  // above it, the maximum is subtracted, as in the op
  const std::int64_t n = x.last_size(), first = i / n * n;
  if (std::isinf(x[i])) return std::nullopt;
  const float largest = *std::max_element(x.values.begin() + first, x.values.begin() + first + n);
  const auto part = [&](std::int64_t at) {
    return exponential(std::abs(largest) > kSafe ? Arithmetic(x[at]) - Arithmetic(largest) : Arithmetic(x[at]));
  };
  std::vector<Arithmetic> parts;
  for (std::int64_t at = first; at < first + n; ++at) {
    if (!std::isinf(x[at])) parts.push_back(part(at));
  }
  return part(i) / sum_of(parts);
}
std::span<const OpKind> attention_kinds() { return kKinds; }

}  // namespace vitrine
