#include "model/mixers/mamba/mamba.h"

#include "base/error.h"
#include "model/checks.h"
#include "ops/effective_attention.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

/// A part of x_proj's result, after its norm, which has no sites of its own.
Tensor normed_part(Pass& p, const MambaConfig& c, const NormParams& w, const Tensor& x, std::int64_t first,
                   std::int64_t count) {
  const Tensor part = columns(p, x, first, count);
  return c.norm ? plain_norm(p, *c.norm, w, part) : part;
}

}  // namespace

Tensor forward(Pass& p, BlockSite at, const MambaConfig& c, const MambaParams& w, const SublayerInput& in) {
  const std::int64_t n = in.normed.rows();
  const Tensor projected = p.tap(at(MambaSite::proj_out), linear(p, w.w_in, p.tap(at(MambaSite::in), in.normed)));
  const Tensor inputs = p.tap(at(MambaSite::conv_in), columns(p, projected, 0, c.channels));
  const Tensor z = columns(p, projected, c.channels, c.channels);
  const Tensor sums = p.tap(at(MambaSite::conv_out), short_convolution(p, at, {&w.conv, 1}, inputs, 0));
  const Tensor x = activate(p, c.activation, sums);

  const Tensor parts = p.tap(at(MambaSite::x_proj_out), linear(p, w.w_x, x));
  const Tensor rank = normed_part(p, c, w.dt_norm, parts, 0, c.dt_rank);
  const Tensor b = normed_part(p, c, w.b_norm, parts, c.dt_rank, c.d_state);
  const Tensor cs = normed_part(p, c, w.c_norm, parts, c.dt_rank + c.d_state, c.d_state);
  const Tensor raw = p.tap(at(MambaSite::dt_proj_out), linear(p, w.w_dt, rank));
  const Tensor dt = p.tap(at(MambaSite::ssm_dt), state_steps(p, {}, {}, raw));
  const Shape group{n, 1, c.d_state};
  const Tensor keys = p.tap(at(MambaSite::ssm_b), b.reshaped(group)),
               queries = p.tap(at(MambaSite::ssm_c), cs.reshaped(group));

  const Tensor values = scale_values(p, dt, x).reshaped({n, 1, c.channels});
  const StateInputs operands{queries, keys, values, dt, {}, Rates{w.a_log, c.rates_are_logs}};
  show_effective_attention(p, at, MambaSite::effective_attention, c.state(), operands, dt);
  const StateSites sites{MambaSite::state, MambaSite::carry, MambaSite::write, true};
  const Tensor y = state_scan(p, at, c.state(), sites, operands, 1).reshaped({n, c.channels});
  const Tensor sum = p.tap(at(MambaSite::norm_in), add_skipped(p, w.skip, x, y));
  const Tensor gate = p.tap(at(MambaSite::norm_gate), z);
  const Tensor result = p.tap(at(MambaSite::norm_out), gated(p, Activation::silu, gate, sum));
  return p.tap(at(MambaSite::out), linear(p, w.w_out, result));
}

void check(std::string_view where, const MambaConfig& c) {
  check_size(where, "channels of Mamba", c.channels);
  check_size(where, "d_state", c.d_state, kMaxStateRows);
  check_size(where, "dt_rank", c.dt_rank);
  check_size(where, "d_conv", c.width, 1 << 16);
  check_norm(where, "the norm of Mamba's steps", c.norm);
}

void list_params(ParamList& list, const std::string& at, const MambaConfig& c, MambaParams& w, Widths d) {
  list.linear(w.w_in, at + ".w_in", 2 * c.channels, d.stream, c.bias);
  list.add(w.conv.weight, at + ".conv.weight", Shape{c.channels, c.width});
  if (c.conv_bias) list.add(w.conv.bias, at + ".conv.bias", Shape{c.channels});
  list.linear(w.w_x, at + ".w_x", c.dt_rank + 2 * c.d_state, c.channels, false);
  if (c.norm) {
    list.norm(w.dt_norm, at + ".dt_norm", *c.norm, c.dt_rank);
    list.norm(w.b_norm, at + ".b_norm", *c.norm, c.d_state);
    list.norm(w.c_norm, at + ".c_norm", *c.norm, c.d_state);
  }
  list.linear(w.w_dt, at + ".w_dt", c.channels, c.dt_rank, true);
  list.add(w.a_log, at + ".a_log", Shape{c.channels, c.d_state});
  list.add(w.skip, at + ".skip", Shape{c.channels});
  list.linear(w.w_out, at + ".w_out", d.stream, c.channels, c.bias);
}

std::optional<double> gguf_word(const MambaConfig& c, std::string_view word) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  if (word == "d_conv") return number(c.width);
  if (word == "d_inner") return number(c.channels);
  if (word == "d_state") return number(c.d_state);
  if (word == "dt_rank") return number(c.dt_rank);
  if (word == "dt_b_c_rms") return c.norm ? 1.0 : 0.0;
  return {};
}

void divide(WeightDivider&, MambaConfig&, MambaParams&) {
  throw Unsupported("--split heads", "Mamba is not divided by heads: use --split layers");
}

}  // namespace vitrine
