// A slice of a real MLP that can be drawn: 2 inputs, 3 units, 2 outputs.
#include <algorithm>
#include <cmath>

#include "checkpoint/param_rows.h"
#include "look/figures.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

using Doubles = std::vector<double>;

constexpr std::size_t kUnits = 3, kGrid = 41;

Doubles as_doubles(std::span<const float> x) { return {x.begin(), x.end()}; }
double dot_product(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Row `i` of a weight.
Doubles row_of(const Param& weight, std::int64_t i, std::int64_t n) {
  std::vector<float> row(static_cast<std::size_t>(n));
  read_row(weight.view, i, row);
  return as_doubles(row);
}
/// Columns `units` of a weight.
std::vector<Doubles> columns_of(const Param& weight, const std::vector<std::int32_t>& units) {
  std::vector<Doubles> columns(units.size());
  for (std::int64_t o = 0; o < weight.shape[0]; ++o) {
    const Doubles row = row_of(weight, o, weight.shape[1]);
    for (std::size_t u = 0; u < units.size(); ++u) columns[u].push_back(row[static_cast<std::size_t>(units[u])]);
  }
  return columns;
}

/// e1, and the part of `other` that is orthogonal to it, as long as it; empty if there is none.
std::vector<Doubles> axes(const Doubles& e1, const Doubles& other) {
  const double along = dot_product(other, e1) / dot_product(e1, e1);
  Doubles e2 = other;
  for (std::size_t i = 0; i < e2.size(); ++i) e2[i] -= along * e1[i];
  const double factor = std::sqrt(dot_product(e1, e1) / dot_product(e2, e2));
  if (!std::isfinite(factor)) return {};
  for (double& x : e2) x *= factor;
  return {e1, e2};
}

/// The engine's own activation function.
std::vector<float> activated(const GenerateContext& context, Activation activation, std::span<const float> x) {
  Arena arena;
  Pass pass = context.make_pass(arena);
  pass.taps = nullptr;
  const Tensor in = pass.tensor({1, static_cast<std::int64_t>(x.size())});
  std::copy(x.begin(), x.end(), in.data);
  const Tensor out = activate(pass, activation, in);
  return {out.values().begin(), out.values().end()};
}

struct Slice {
  bool gated = false;
  Activation activation = Activation::relu;
  Doubles gate, up, down;  // [3, 2], [3, 2], [2, 3]
};

/// The first output over the grid of inputs. `act` is null for none.
Doubles surface(const GenerateContext& context, const Slice& s, const Activation* act, bool gated) {
  const Doubles& inner = gated ? s.gate : s.up;
  std::vector<float> z;
  for (std::size_t i = 0; i < kGrid * kGrid; ++i) {
    const double x = -2 + static_cast<double>(i / kGrid) / 10, y = -2 + static_cast<double>(i % kGrid) / 10;
    for (std::size_t u = 0; u < kUnits; ++u) z.push_back(static_cast<float>(inner[2 * u] * x + inner[2 * u + 1] * y));
  }
  const std::vector<float> a = act == nullptr ? z : activated(context, *act, z);
  Doubles result;
  for (std::size_t i = 0; i < kGrid * kGrid; ++i) {
    const double x = -2 + static_cast<double>(i / kGrid) / 10, y = -2 + static_cast<double>(i % kGrid) / 10;
    double sum = 0;
    for (std::size_t u = 0; u < kUnits; ++u) {
      const double open = gated ? s.up[2 * u] * x + s.up[2 * u + 1] * y : 1;
      sum += s.down[u] * static_cast<double>(a[kUnits * i + u]) * open;
    }
    result.push_back(sum);
  }
  return result;
}

void add_surfaces(const GenerateContext& context, const Slice& s, LookData& data) {
  const LookData::Sizes grid = {kGrid, kGrid};
  const Activation relu = Activation::relu;
  data.add("mlp", "mlp.surface.linear", grid, surface(context, s, nullptr, false));
  data.add("mlp", "mlp.surface.relu", grid, surface(context, s, &relu, false));
  if (s.gated) {
    data.add("mlp", "mlp.surface.gated_relu", grid, surface(context, s, &relu, true));
    data.add("mlp", "mlp.surface.gated", grid, surface(context, s, &s.activation, true));
  } else {
    data.add("mlp", "mlp.surface.activation", grid, surface(context, s, &s.activation, false));
  }
  std::vector<float> x;
  for (int i = -60; i <= 60; ++i) x.push_back(static_cast<float>(i) / 10);
  data.add("mlp", "activation.x", x);
  data.add("mlp", "activation.y", {static_cast<std::int64_t>(x.size())}, activated(context, s.activation, x));
}

}  // namespace

const DenseConfig* dense_of(const ModelConfig& config, std::size_t layer) {
  return layer < config.blocks.size() ? find<DenseConfig>(config.blocks[layer]) : nullptr;
}

std::optional<std::int64_t> drawn_mlp(const ModelConfig& config) {
  const auto n = static_cast<std::int64_t>(config.n_layers());
  std::optional<std::int64_t> nearest;
  for (std::int64_t l = 0; l < n; ++l) {
    if (dense_of(config, static_cast<std::size_t>(l)) == nullptr) continue;
    if (!nearest || std::abs(l - n / 2) <= std::abs(*nearest - n / 2)) nearest = l;
  }
  return nearest;
}

/// The number of the sublayer that is the FFN.
static std::size_t place_of_ffn(const BlockConfig& block) {
  const auto is_ffn = [](const Sublayer& sublayer) { return names_of(sublayer).prefix == "mlp"; };
  return static_cast<std::size_t>(std::find_if(block.sublayers.begin(), block.sublayers.end(), is_ffn) -
                                  block.sublayers.begin());
}

std::string mlp_input(const Recording& r, std::int64_t layer) {
  const BlockConfig& block = r.facts.config->blocks[static_cast<std::size_t>(layer)];
  const std::size_t place = place_of_ffn(block);
  const Sublayer& mlp = block.sublayers[place];
  if (mlp.input == Sublayer::Input::previous) return in_block(layer, "ln1.hook_out");
  if (mlp.norms.pre) return in_block(layer, "ln2.hook_out");
  if (place == 0 || mlp.input == Sublayer::Input::block) return in_block(layer, "hook_resid_pre");
  const bool is_normalized = block.sublayers[place - 1].norms.sum.has_value();
  return in_block(layer, is_normalized ? "hook_normalized_resid_mid" : "hook_resid_mid");
}

void add_mlp_values(const GenerateContext& context, const Recording& r, LookData& data) {
  const std::int64_t p = r.position;
  const std::optional<std::int64_t> drawn = drawn_mlp(*r.facts.config);
  if (!drawn || p == 0) return;
  const std::int64_t layer = *drawn;
  const auto l = static_cast<std::size_t>(layer);
  const DenseConfig* const dense = dense_of(*r.facts.config, l);
  const std::string in = mlp_input(r, layer), post = in_block(layer, "mlp.hook_post");
  const std::vector<Doubles> e = axes(as_doubles(r.row(in, p)), as_doubles(r.row(in, p - 1)));
  if (e.empty()) return;

  const std::span<const float> h = r.row(post, p);
  std::vector<std::int32_t> units(h.size());
  for (std::size_t i = 0; i < units.size(); ++i) units[i] = static_cast<std::int32_t>(i);
  if (units.size() < kUnits) return;
  std::partial_sort(units.begin(), units.begin() + kUnits, units.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = std::abs(h[static_cast<std::size_t>(a)]), y = std::abs(h[static_cast<std::size_t>(b)]);
    return x != y ? x > y : a < b;
  });
  units.resize(kUnits);

  const FfnParams& w = params_of(*dense, context.model->params()
                                             .blocks[params_block(*r.facts.config, l)]
                                             .sublayers[place_of_ffn(r.facts.config->blocks[l])]);
  const auto width = static_cast<std::int64_t>(e[0].size());
  const double length = std::sqrt(dot_product(e[0], e[0]));
  Slice s{dense->gated, dense->activation, {}, {}, Doubles(2 * kUnits)};
  const std::vector<Doubles> written = columns_of(w.w_down.weight, units);
  for (std::size_t u = 0; u < kUnits; ++u) {
    for (const Doubles& axis : e) {
      if (s.gated) s.gate.push_back(dot_product(row_of(w.w_gate.weight, units[u], width), axis));
      s.up.push_back(dot_product(row_of(w.w_up.weight, units[u], width), axis));
    }
    for (std::size_t o = 0; o < 2; ++o) s.down[o * kUnits + u] = dot_product(written[u], e[o]) / length;
  }
  const std::vector<std::int32_t> number = {static_cast<std::int32_t>(layer)};
  data.add("mlp", "mlp.layer", {}, number);
  data.add("mlp", "mlp.units", {kUnits}, units);
  if (s.gated) data.add("mlp", "mlp.gate", {kUnits, 2}, s.gate);
  data.add("mlp", "mlp.up", {kUnits, 2}, s.up);
  data.add("mlp", "mlp.down", {2, kUnits}, s.down);
  add_surfaces(context, s, data);
}

}  // namespace vitrine
