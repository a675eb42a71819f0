#include "model/mixers/mamba2/mamba2.h"

#include <cmath>

#include "base/error.h"
#include "model/checks.h"
#include "ops/effective_attention.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

/// Columns of what is projected, times their factor.
Tensor part_of(Pass& p, const Tensor& all, std::int64_t first, std::int64_t count, float factor) {
  return scale(p, factor, columns(p, all, first, count));
}

/// x, B and C, before the convolution.
Tensor convolved(Pass& p, const Mamba2Config& c, const Tensor& all) {
  const std::int64_t groups = c.n_groups * c.d_state;
  const Mamba2Factors& f = c.factors;
  if (f.x == 1 && f.b == 1 && f.c == 1) return columns(p, all, c.inner(), c.channels());
  const Tensor x = part_of(p, all, c.inner(), c.inner(), f.x), b = part_of(p, all, 2 * c.inner(), groups, f.b);
  return concat(p, concat(p, x, b), part_of(p, all, 2 * c.inner() + groups, groups, f.c));
}

/// What the output projection reads: y, gated and normalized.
Tensor finished(Pass& p, BlockSite at, const Mamba2Config& c, const Mamba2Params& w, const Tensor& y, const Tensor& z) {
  const Tensor gate = p.tap(at(MambaSite::norm_gate), z);
  if (!c.norm) return p.tap(at(MambaSite::norm_out), gated(p, Activation::silu, gate, y));
  const Tensor x = c.norm_before_gate ? y : gated(p, Activation::silu, gate, y);
  const Shape groups{y.rows(), c.n_groups, c.inner() / c.n_groups};
  const Tensor normed =
      norm(p, at(MambaSite::norm_scale), at(MambaSite::norm_normalized), *c.norm, w.norm, x.reshaped(groups))
          .reshaped(y.shape);
  return p.tap(at(MambaSite::norm_out), c.norm_before_gate ? gated(p, Activation::silu, gate, normed) : normed);
}

}  // namespace

Tensor forward(Pass& p, BlockSite at, const Mamba2Config& c, const Mamba2Params& w, const SublayerInput& in) {
  const std::int64_t n = in.normed.rows(), groups = c.n_groups * c.d_state;
  const Tensor x_in = scale(p, c.factors.input, p.tap(at(MambaSite::in), in.normed));
  const Tensor all = p.tap(at(MambaSite::proj_out), linear(p, w.w_in, x_in));
  const Tensor z = part_of(p, all, 0, c.inner(), c.factors.z);
  const Tensor inputs = p.tap(at(MambaSite::conv_in), convolved(p, c, all));
  const Tensor raw = part_of(p, all, c.inner() + c.channels(), c.n_heads, c.factors.dt);
  const Tensor sums = p.tap(at(MambaSite::conv_out), short_convolution(p, at, {&w.conv, 1}, inputs, 0));
  const Tensor active = activate(p, c.activation, sums);
  const Tensor x = columns(p, active, 0, c.inner());
  const auto by_group = [&](std::int64_t first) {
    return columns(p, active, first, groups).reshaped({n, c.n_groups, c.d_state});
  };
  const Tensor dt = p.tap(at(MambaSite::ssm_dt), state_steps(p, w.dt_bias, c.limits, raw));
  const Tensor keys = p.tap(at(MambaSite::ssm_b), by_group(c.inner())),
               queries = p.tap(at(MambaSite::ssm_c), by_group(c.inner() + groups));

  const Tensor values = scale_values(p, dt, x).reshaped({n, c.n_heads, c.head_dim});
  const StateInputs operands{queries, keys, values, log_decays(p, {w.a_log, c.rates_are_logs}, dt)};
  show_effective_attention(p, at, MambaSite::effective_attention, c.state(), operands, dt);
  const StateSites sites{MambaSite::state, MambaSite::carry, MambaSite::write, true};
  const Tensor y = state_scan(p, at, c.state(), sites, operands, 1).reshaped({n, c.inner()});
  const Tensor sum = p.tap(at(MambaSite::norm_in), add_skipped(p, w.skip, x, y));
  return p.tap(at(MambaSite::out), linear(p, w.w_out, finished(p, at, c, w, sum, z)));
}

void check(std::string_view where, const Mamba2Config& c) {
  check_size(where, "heads of Mamba-2", c.n_heads);
  check_size(where, "elements of a head of Mamba-2", c.head_dim);
  check_size(where, "d_state", c.d_state, kMaxStateRows);
  check_size(where, "groups of Mamba-2", c.n_groups);
  check_size(where, "d_conv", c.width, 1 << 16);
  check_size(where, "channels of Mamba-2", c.channels());
  check_norm(where, "the norm of Mamba-2", c.norm);
  if (c.n_heads % c.n_groups != 0) {
    throw BadInput(where, "expected a number of heads that is a multiple of that of groups, got {} and {}", c.n_heads,
                   c.n_groups);
  }
  if (!(c.limits.least >= 0 && c.limits.most > c.limits.least)) {
    throw BadInput(where, "time_step_limit: expected two ascending numbers, at least 0, got {} and {}", c.limits.least,
                   c.limits.most);
  }
  for (const float f : {c.factors.input, c.factors.z, c.factors.x, c.factors.b, c.factors.c, c.factors.dt}) {
    if (!std::isfinite(f)) throw BadInput(where, "expected finite factors of the projection, got {}", f);
  }
}

void list_params(ParamList& list, const std::string& at, const Mamba2Config& c, Mamba2Params& w, Widths d) {
  list.linear(w.w_in, at + ".w_in", c.inner() + c.channels() + c.n_heads, d.stream, c.in_bias);
  list.add(w.conv.weight, at + ".conv.weight", Shape{c.channels(), c.width});
  if (c.conv_bias) list.add(w.conv.bias, at + ".conv.bias", Shape{c.channels()});
  list.add(w.dt_bias, at + ".dt_bias", Shape{c.n_heads});
  list.add(w.a_log, at + ".a_log", Shape{c.n_heads});
  list.add(w.skip, at + ".skip", Shape{c.n_heads});
  if (c.norm) list.norm(w.norm, at + ".norm", *c.norm, c.inner());
  list.linear(w.w_out, at + ".w_out", d.stream, c.inner(), c.out_bias);
}

std::optional<double> gguf_word(const Mamba2Config& c, std::string_view word) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  if (word == "d_conv") return number(c.width);
  if (word == "d_inner") return number(c.inner());
  if (word == "d_state") return number(c.d_state);
  if (word == "n_groups") return number(c.n_groups);
  if (word == "dt_rank") return number(c.n_heads);
  return {};
}

void divide(WeightDivider&, Mamba2Config&, Mamba2Params&) {
  throw Unsupported("--split heads", "Mamba-2 is not divided by heads: use --split layers");
}

}  // namespace vitrine
