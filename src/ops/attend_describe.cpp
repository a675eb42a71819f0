// What is said about the steps of attention: q and k `[T, H or K, dh]`, v and z `[T, K or H, dv]`, strips (scores or
// patterns) `[H, T, S]`. A trace has one segment, so S = T.
#include <cmath>

#include "base/math.h"
#include "ops/attend.h"
#include "ops/describe.h"

namespace vitrine {
namespace {

/// Where the rows of queries and keys, the strips and their columns begin.
struct Heads {
  const OpView& v;
  std::int64_t dh;  // of the rows of queries and keys, or of those of values and z
  const AttendConfig& c = v.config<AttendConfig>();
  std::int64_t H = c.n_heads, K = c.n_kv_heads, T = v.trace.n_tokens(), group = H / K;

  // For element i of the strips, the row of its query and of its key.
  std::int64_t query(std::int64_t i) const { return (i / T % T * H + i / (T * T)) * dh; }
  std::int64_t key(std::int64_t i) const { return (i % T * K + i / (T * T) / group) * dh; }
  // For element i of the queries, its strip, and the column of the values.
  std::int64_t strip(std::int64_t i) const { return (i / dh % H * T + i / (H * dh)) * T; }
  std::int64_t column(std::int64_t i) const { return i / dh % H / group * dh + i % dh; }

  /// Element i of the strips: the dot product of a query's row and a key's row, over the elements of a head.
  Arithmetic over_elements(const Seen& of_queries, const Seen& of_keys, std::int64_t i) const {
    return dot(v, of_queries, query(i), 1, of_keys, key(i), 1, dh);
  }
  /// Sums over the heads of a group and the rows of a column of their strips; over_keys(), over a row of one strip.
  Arithmetic over_queries(const Seen& strips, const Seen& of_queries, std::int64_t i) const {
    const std::int64_t s = i / (K * dh), g = i / dh % K, e = i % dh;
    std::vector<Arithmetic> heads;
    for (std::int64_t h = g * group; h < (g + 1) * group; ++h) {
      heads.push_back(dot(v, strips, h * T * T + s, T, of_queries, h * dh + e, H * dh, T));
    }
    return sum_of(heads);
  }
  Arithmetic over_keys(const Seen& strips, const Seen& of_keys, std::int64_t i) const {
    return dot(v, strips, strip(i), 1, of_keys, column(i), K * dh, T);
  }
};

OpDescription::Elements score_elements(const OpView& v, std::int64_t i) {
  const Heads n{v, v.config<AttendConfig>().head_dim};
  return {of_input(0, n.query(i), n.dh), of_input(1, n.key(i), n.dh)};
}
Cell score_cell(const OpView& v, std::int64_t i) {
  const Heads n{v, v.config<AttendConfig>().head_dim};
  return n.over_elements(v.input(0), v.input(1), i) * Arithmetic(n.c.score_scale);
}
Cell score_gradient_cell(const OpView& v, std::size_t k, std::int64_t i) {
  const Heads n{v, v.config<AttendConfig>().head_dim};
  return Arithmetic(n.c.score_scale) *
         (k == 0 ? n.over_keys(v.gradient(), v.input(1), i) : n.over_queries(v.gradient(), v.input(0), i));
}

bool is_capped(const OpView& v) { return v.config<AttendConfig>().softcap.has_value(); }
std::string mask_formula(const OpView& v) {
  const AttendConfig& c = v.config<AttendConfig>();
  const std::string biased = c.alibi ? "r_{h,t,s} − m_{h} · (t − s)" : "r_{h,t,s}";
  return "s_{h,t,s} = " + (c.softcap ? "c · tanh({" + biased + "}/{c})" : biased) + ", \"−∞ where\" s \"is masked\"";
}
Cell mask_cell(const OpView& v, std::int64_t i) {
  const AttendConfig& c = v.config<AttendConfig>();
  if ((!c.softcap && !c.alibi) || std::isinf(v.output()[i])) return std::nullopt;
  Arithmetic score(v.input(0)[i]);
  if (c.alibi) {
    const std::int64_t n = v.trace.n_tokens(), distance = i / n % n - i % n;
    const float slope = c.alibi->slopes[static_cast<std::size_t>(i / (n * n))];
    score = score - Arithmetic(slope) * Arithmetic(static_cast<float>(distance));
  }
  if (!c.softcap) return score;
  return Arithmetic(*c.softcap) * function("tanh", math::tanh, score / Arithmetic(*c.softcap));
}

bool has_sink(const OpView& v) { return v.config<AttendConfig>().sink; }
constexpr const char* kSoftmaxWithSink = "p_{i} = {exp(s_{i})}/{exp(\"sink\"_{h}) + Σ_{u} exp(s_{u})}";
Cell softmax_or_sink_cell(const OpView& v, std::int64_t i) { return has_sink(v) ? Cell() : softmax_cell(v, i); }

OpDescription::Elements softmax_elements(const OpView& v, std::int64_t i) {
  const std::int64_t n = v.input(0).last_size();
  return {of_input(0, i / n * n, n)};
}

OpDescription::Elements mix_elements(const OpView& v, std::int64_t i) {
  const Heads n{v, v.config<AttendConfig>().width_of_values()};
  return {of_input(0, n.strip(i), n.T), of_input(1, n.column(i), n.T, n.K * n.dh)};
}
Cell mix_cell(const OpView& v, std::int64_t i) {
  return Heads{v, v.config<AttendConfig>().width_of_values()}.over_keys(v.input(0), v.input(1), i);
}
Cell mix_gradient_cell(const OpView& v, std::size_t k, std::int64_t i) {
  const Heads n{v, v.config<AttendConfig>().width_of_values()};
  return k == 0 ? n.over_elements(v.gradient(), v.input(1), i) : n.over_queries(v.input(0), v.gradient(), i);
}

constexpr std::string_view kAttend = "src/ops/attend.cpp";

}  // namespace

constexpr OpDescription attend_score_op{
    kAttend,
    {"r_{h,t,s} = (q_{t,h} · k_{s,h}) · scale", score_cell, score_elements},
    {"scale · Σ_{s} dr_{h,t,s} · k_{s,h}", score_gradient_cell, "scale · Σ_{t} dr_{h,t,s} · q_{t,h}"}};
constexpr OpDescription attend_mask_op{
    kAttend, {mask_formula, mask_cell, same_element}, {{is_capped, "ds_{h,t,s} · (1 − ({s_{h,t,s}}/{c})^{2})", ""}}};
constexpr OpDescription attend_softmax_op{
    kAttend, {{has_sink, kSoftmaxWithSink, kSoftmax}, softmax_or_sink_cell, softmax_elements}, kSoftmaxGradient};
/// Its trail follows the values, not the pattern.
constexpr OpDescription attend_mix_op{
    kAttend,
    {"z_{t,h} = Σ_{s} p_{h,t,s} · v_{s,h}", mix_cell, mix_elements, OpDescription::Trail::second},
    {"dz_{t,h} · v_{s,h}", mix_gradient_cell, "Σ_{t} p_{h,t,s} · dz_{t,h}"}};

}  // namespace vitrine
