#include "model/mixers/delta_net/delta_net.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/checks.h"
#include "ops/by_head.h"
#include "ops/effective_attention.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

constexpr float kUnitEps = 1e-6f;  // under the root of a vector's length

/// What a delta net computes of its rows before the convolution.
struct Projected {
  Tensor qkv;  // [T, C], if the projections have made it at once
  Tensor q, k, v, z, a, b;
};

/// The map to the decay or to the gate.
Tensor gate_input(Pass& p, const LinearParams& down, const LinearParams& w, const Tensor& x) {
  return linear(p, w, down.weight.present() ? linear(p, down, x) : x);
}

Projected project(Pass& p, const DeltaNetConfig& c, const DeltaNetParams& w, const Tensor& x) {
  Projected y;
  const std::int64_t n = x.rows(), per_key = c.n_heads / c.n_key_heads;
  if (c.projections == DeltaNetConfig::Projections::by_key_head) {
    const std::int64_t values = per_key * c.value_dim;
    const Tensor all = linear(p, w.w_qkvz, x).reshaped({n, c.n_key_heads, 2 * (c.key_dim + values)});
    const Tensor gates = linear(p, w.w_ba, x).reshaped({n, c.n_key_heads, 2 * per_key});
    y.q = part_of_heads(p, all, 0, c.key_dim);
    y.k = part_of_heads(p, all, c.key_dim, c.key_dim);
    y.v = part_of_heads(p, all, 2 * c.key_dim, values);
    y.z = part_of_heads(p, all, 2 * c.key_dim + values, values);
    y.b = part_of_heads(p, gates, 0, per_key);
    y.a = part_of_heads(p, gates, per_key, per_key);
  } else {
    if (c.projections == DeltaNetConfig::Projections::joined) {
      y.qkv = linear(p, w.w_qkv, x);
    } else {
      y.q = linear(p, w.wq, x);
      y.k = linear(p, w.wk, x);
      y.v = linear(p, w.wv, x);
    }
    y.z = gate_input(p, w.w_z_down, w.w_z, x);
    y.a = gate_input(p, w.w_a_down, w.w_a, x);
    y.b = linear(p, w.w_b, x);
  }
  return y;
}

/// q, k and v next to each other `[T, C]`, and taps of each before the convolution.
Tensor joined(Pass& p, BlockSite at, const DeltaNetConfig& c, Projected& y) {
  const bool is_tapped =
      p.wants(at(DeltaSite::q_pre_conv)) || p.wants(at(DeltaSite::k_pre_conv)) || p.wants(at(DeltaSite::v_pre_conv));
  if (y.qkv.data != nullptr && !is_tapped) return y.qkv;
  if (y.qkv.data != nullptr) {
    y.q = columns(p, y.qkv, 0, c.keys());
    y.k = columns(p, y.qkv, c.keys(), c.keys());
    y.v = columns(p, y.qkv, 2 * c.keys(), c.values());
  }
  const std::int64_t n = y.q.rows();
  const Tensor q = p.tap(at(DeltaSite::q_pre_conv), y.q.reshaped({n, c.n_key_heads, c.key_dim}));
  const Tensor k = p.tap(at(DeltaSite::k_pre_conv), y.k.reshaped({n, c.n_key_heads, c.key_dim}));
  const Tensor v = p.tap(at(DeltaSite::v_pre_conv), y.v.reshaped({n, c.n_heads, c.value_dim}));
  return concat(p, concat(p, q, k), v);
}

std::span<const ConvolutionParams> convolutions(const DeltaNetConfig& c, const DeltaNetParams& w) {
  return {w.conv.data(), c.conv_parts[0] == 0 ? std::size_t{1} : w.conv.size()};
}

/// The output's gate: act(z), times the norm of each head.
Tensor gated_norm(Pass& p, BlockSite at, const DeltaNetConfig& c, const DeltaNetParams& w, const Tensor& o,
                  const Tensor& z) {
  const Tensor gate = p.tap(at(DeltaSite::gate_input), z.reshaped(o.shape));
  const Tensor normed = norm(p, at(kDeltaNorm), c.norm, w.norm, o);
  if (c.sigmoid_gate) return hadamard(p, normed, sigmoid(p, gate));
  return gated(p, Activation::silu, gate, normed);
}

}  // namespace

Tensor forward(Pass& p, BlockSite at, const DeltaNetConfig& c, const DeltaNetParams& w, const SublayerInput& in) {
  const Tensor x = p.tap(at(DeltaSite::in), in.normed);
  const std::int64_t n = x.rows();
  Projected y = project(p, c, w, x);
  const Tensor inputs = p.tap(at(DeltaSite::conv_in), joined(p, at, c, y));
  const Tensor sums = p.tap(at(DeltaSite::conv_out), short_convolution(p, at, convolutions(c, w), inputs, 0));
  const Tensor active = activate(p, c.activation, sums);
  const auto part = [&](std::int64_t first, std::int64_t heads, std::int64_t size) {
    return columns(p, active, first, heads * size).reshaped({n, heads, size});
  };
  const Tensor query = p.tap(at(DeltaSite::q), part(0, c.n_key_heads, c.key_dim));
  const Tensor key = p.tap(at(DeltaSite::k), part(c.keys(), c.n_key_heads, c.key_dim));
  const Tensor value = p.tap(at(DeltaSite::v), part(2 * c.keys(), c.n_heads, c.value_dim));

  const Tensor logit = p.tap(at(DeltaSite::beta_logit), y.b.reshaped({n, c.n_heads}));
  const Tensor share = p.tap(at(DeltaSite::beta), scale(p, c.beta_scale, sigmoid(p, logit)));
  const Tensor steps = state_steps(p, w.dt_bias, {}, y.a.reshaped({n, c.n_decays()}));
  const Tensor flat = log_decays(p, {w.a_log, c.rates_are_logs}, steps);
  const Tensor decays =
      p.tap(at(DeltaSite::log_decay), c.decay_by_channel ? flat.reshaped({n, c.n_heads, c.key_dim}) : flat);

  const float root = std::sqrt(static_cast<float>(c.key_dim));
  const StateInputs operands{unit_vectors(p, kUnitEps, 1.0f / root, query), unit_vectors(p, kUnitEps, 1.0f, key), value,
                             decays, share};
  show_effective_attention(p, at, DeltaSite::effective_attention, c.state(), operands);
  const Tensor o = p.tap(at(DeltaSite::recurrence_out),
                         state_scan(p, at, c.state(), {DeltaSite::state, DeltaSite::carry}, operands, 1));
  const Tensor z = p.tap(at(DeltaSite::z), gated_norm(p, at, c, w, o, y.z)).reshaped({n, c.values()});
  return p.tap(at(DeltaSite::out), linear(p, w.wo, z));
}

void check(std::string_view where, const DeltaNetConfig& c) {
  check_size(where, "n_state_heads", c.n_heads);
  check_size(where, "n_state_groups", c.n_key_heads);
  check_size(where, "state_key_dim", c.key_dim, kMaxStateRows);
  check_size(where, "state_value_dim", c.value_dim);
  check_size(where, "d_conv", c.width, 1 << 16);
  if (c.gate_rank) check_size(where, "gate_rank", *c.gate_rank);
  check_number(where, "beta_scale", c.beta_scale);
  check_norm(where, "the norm of a delta net's heads", c.norm);
  if (c.n_heads % c.n_key_heads != 0) {
    throw BadInput(where, "expected a number of value heads that is a multiple of that of key heads, got {} and {}",
                   c.n_heads, c.n_key_heads);
  }
  check_size(where, "channels of a delta net", c.channels());
  const std::int64_t parts = c.conv_parts[0] + c.conv_parts[1] + c.conv_parts[2];
  if (parts != 0 && parts != c.channels()) {
    throw BadInput(where, "expected convolutions of {} channels together, got {}", c.channels(), parts);
  }
}

void list_params(ParamList& list, const std::string& at, const DeltaNetConfig& c, DeltaNetParams& w, Widths d) {
  if (c.projections == DeltaNetConfig::Projections::by_key_head) {
    list.linear(w.w_qkvz, at + ".w_qkvz", c.channels() + c.values(), d.stream, false);
    list.linear(w.w_ba, at + ".w_ba", 2 * c.n_heads, d.stream, false);
  } else {
    if (c.projections == DeltaNetConfig::Projections::joined) {
      list.linear(w.w_qkv, at + ".w_qkv", c.channels(), d.stream, false);
    } else {
      list.linear(w.wq, at + ".wq", c.keys(), d.stream, false);
      list.linear(w.wk, at + ".wk", c.keys(), d.stream, false);
      list.linear(w.wv, at + ".wv", c.values(), d.stream, false);
    }
    if (c.gate_rank) list.linear(w.w_z_down, at + ".w_z_down", *c.gate_rank, d.stream, false);
    list.linear(w.w_z, at + ".w_z", c.values(), c.gate_rank.value_or(d.stream), false);
    if (c.gate_rank) list.linear(w.w_a_down, at + ".w_a_down", *c.gate_rank, d.stream, false);
    list.linear(w.w_a, at + ".w_a", c.n_decays(), c.gate_rank.value_or(d.stream), false);
    list.linear(w.w_b, at + ".w_b", c.n_heads, d.stream, false);
  }
  if (c.conv_parts[0] == 0) {
    list.add(w.conv[0].weight, at + ".conv.weight", Shape{c.channels(), c.width});
  } else {
    constexpr std::string_view kNames[] = {".q_conv.weight", ".k_conv.weight", ".v_conv.weight"};
    for (std::size_t i = 0; i < w.conv.size(); ++i) {
      list.add(w.conv[i].weight, at + std::string(kNames[i]), Shape{c.conv_parts[i], c.width});
    }
  }
  list.add(w.a_log, at + ".a_log", Shape{c.n_heads});
  list.add(w.dt_bias, at + ".dt_bias", Shape{c.n_decays()});
  list.norm(w.norm, at + ".norm", c.norm, c.value_dim);
  list.linear(w.wo, at + ".wo", d.stream, c.values(), false);
}

std::optional<double> gguf_word(const DeltaNetConfig& c, std::string_view word) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  if (word == "d_conv") return number(c.width);
  if (word == "d_inner") return number(c.values());
  if (word == "d_state") return number(c.key_dim);
  if (word == "n_groups") return number(c.n_key_heads);
  if (word == "dt_rank") return number(c.n_heads);
  return {};
}

void divide(WeightDivider&, DeltaNetConfig&, DeltaNetParams&) {
  throw Unsupported("--split heads", "a delta net is not divided by heads: use --split layers");
}

}  // namespace vitrine
