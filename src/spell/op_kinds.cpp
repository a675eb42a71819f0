#include "spell/op_kinds.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/math.h"

namespace vitrine {
namespace {

std::string made(const OpView& v) { return symbol(v.facts.operands[v.op.output].name); }
std::string d_made(const OpView& v) { return "d" + made(v); }

std::string passed_on(const OpView& v, std::size_t) { return d_made(v); }
/// The gradient of the output itself.
Cell passed_cell(const OpView& v, std::size_t, std::int64_t i) { return Arithmetic(v.gradient()[i]); }

// embed, embed_positions

std::string embed_formula(const OpView& v) {
  return made(v) + (v.facts.config->embedding.scale != 1 ? "_{t} = s · E_{id(t)}" : "_{t} = E_{id(t)}");
}
Cell embed_cell(const OpView& v, std::int64_t i) {
  const float scale = v.facts.config->embedding.scale;
  const std::int64_t d = v.output().last_size(), id = v.facts.ids[static_cast<std::size_t>(i / d)];
  if (scale == 1) return std::nullopt;
  return Arithmetic(scale) * Arithmetic(v.facts.params.at(v.op.param)[id * d + i % d]);
}
std::string positions_formula(const OpView& v) { return made(v) + "_{t} = P_{t}"; }

// linear

std::string linear_formula(const OpView& v) {
  return made(v) + "_{t,o} = Σ_{i} x_{t,i} · W_{o,i}" + (v.facts.bias_of(v.op) != nullptr ? " + b_{o}" : "");
}
Cell linear_cell(const OpView& v, std::int64_t i) {
  const Seen& w = v.facts.params.at(v.op.param);
  const std::int64_t row = i / w.shape[0], out = i % w.shape[0], n = w.shape[1];
  const Arithmetic product = dot(v.facts, v.input(0), row * n, 1, w, out * n, 1, n);
  const Seen* const bias = v.facts.bias_of(v.op);
  return bias == nullptr ? product : product + Arithmetic((*bias)[out]);
}
std::string linear_gradient(const OpView& v, std::size_t) { return "Σ_{o} " + d_made(v) + "_{t,o} · W_{o,i}"; }
Cell linear_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  const Seen& w = v.facts.params.at(v.op.param);
  return dot(v.facts, v.gradient(), i / w.shape[1] * w.shape[0], 1, w, i % w.shape[1], w.shape[1], w.shape[0]);
}

// norm_scale, norm_divide, norm_weight

const NormConfig& norm_of(const OpView& v) { return v.op.norm.value(); }
bool is_centered(const OpView& v) { return norm_of(v).kind == NormConfig::Kind::layer; }
double mean_of(const Seen& x, std::int64_t first, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = first; i < first + n; ++i) sum += static_cast<double>(x[i]);
  return sum / static_cast<double>(n);
}
/// x − μ, or x for RMSNorm. Rows have `d` elements.
Arithmetic centered(const OpView& v, std::int64_t i, std::int64_t d) {
  const Seen& x = v.input(0);
  return is_centered(v) ? Arithmetic(x[i]) - Arithmetic(mean_of(x, i / d * d, d)) : Arithmetic(x[i]);
}

std::string scale_formula(const OpView& v) {
  return is_centered(v) ? "σ_{t} = √(\"mean\"_{i} (x_{t,i} − μ_{t})^{2} + ε)"
                        : "σ_{t} = √(\"mean\"_{i} x_{t,i}^{2} + ε)";
}
Cell scale_cell(const OpView& v, std::int64_t row) {
  const Seen& x = v.input(0);
  const std::int64_t d = x.count() / v.output().count(), end = (row + 1) * d;
  const double mean = is_centered(v) ? mean_of(x, row * d, d) : 0;
  std::vector<Arithmetic> squares;
  std::size_t written = 0;
  std::int64_t i = row * d;
  for (; i < end && written <= v.facts.most_text; ++i) {
    squares.push_back(squared(is_centered(v) ? Arithmetic(x[i]) - Arithmetic(mean) : Arithmetic(x[i])));
    written += squares.back().text().size();
  }
  Arithmetic sum = sum_of(squares);
  for (; i < end; ++i) {
    const double difference = static_cast<double>(x[i]) - mean;
    sum.add_unwritten(difference * difference);
  }
  const auto eps = static_cast<double>(norm_of(v).eps);
  return function("√", std::sqrt, sum / whole(d) + Arithmetic(eps, decimal(eps, 3)));
}
std::string scale_gradient(const OpView& v, std::size_t) {
  return is_centered(v) ? "{dσ_{t} · (x_{t,i} − μ_{t})}/{N · σ_{t}}" : "{dσ_{t} · x_{t,i}}/{N · σ_{t}}";
}
Cell scale_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  const std::int64_t d = v.input(0).count() / v.output().count();
  return Arithmetic(v.gradient()[i / d]) * centered(v, i, d) / (whole(d) * Arithmetic(v.output()[i / d]));
}

std::string divide_formula(const OpView& v) {
  return is_centered(v) ? "n_{t,i} = {x_{t,i} − μ_{t}}/{σ_{t}}" : "n_{t,i} = {x_{t,i}}/{σ_{t}}";
}
std::int64_t norm_width(const OpView& v) { return v.input(0).count() / v.input(1).count(); }
Cell divide_cell(const OpView& v, std::int64_t i) {
  const std::int64_t d = norm_width(v);
  return centered(v, i, d) / Arithmetic(v.input(1)[i / d]);
}
std::string divide_gradient(const OpView& v, std::size_t k) {
  if (k == 1) return "−{1}/{σ_{t}} Σ_{i} dn_{t,i} · n_{t,i}";
  return is_centered(v) ? "{dn_{t,i} − \"mean\" dn_{t}}/{σ_{t}}" : "{dn_{t,i}}/{σ_{t}}";
}
Cell divide_gradient_cell(const OpView& v, std::size_t k, std::int64_t i) {
  const Seen& dn = v.gradient();
  const std::int64_t d = norm_width(v);
  if (k == 1)
    return Arithmetic(0, "0") - dot(v.facts, dn, i * d, 1, v.output(), i * d, 1, d) / Arithmetic(v.input(1)[i]);
  const Arithmetic own(dn[i]);
  return (is_centered(v) ? own - Arithmetic(mean_of(dn, i / d * d, d)) : own) / Arithmetic(v.input(1)[i / d]);
}

Arithmetic gain_of(const OpView& v, std::int64_t i) {
  const Seen& w = v.facts.params.at(v.op.param);
  const auto offset = static_cast<double>(norm_of(v).weight_offset);
  const Arithmetic gain(w[i % w.count()]);
  return offset == 0 ? gain : Arithmetic(offset, decimal(offset, 0)) + gain;
}
std::string gain_formula(const OpView& v) { return norm_of(v).weight_offset != 0 ? "(1 + g_{i})" : "g_{i}"; }
std::string weight_formula(const OpView& v) {
  return "y_{t,i} = n_{t,i} · " + gain_formula(v) + (v.facts.bias_of(v.op) != nullptr ? " + b_{i}" : "");
}
Cell weight_cell(const OpView& v, std::int64_t i) {
  const Arithmetic product = Arithmetic(v.input(0)[i]) * gain_of(v, i);
  const Seen* const bias = v.facts.bias_of(v.op);
  return bias == nullptr ? product : product + Arithmetic((*bias)[i % bias->count()]);
}
std::string weight_gradient(const OpView& v, std::size_t) { return "dy_{t,i} · " + gain_formula(v); }
Cell weight_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  return Arithmetic(v.gradient()[i]) * gain_of(v, i);
}

// activate, gated

Arithmetic activated(Activation activation, const Arithmetic& z) {
  const Arithmetic half(0.5, "0.5");
  switch (activation) {
    case Activation::relu:
      return larger(whole(0), z);
    case Activation::silu:
      return z / (whole(1) + exponential(whole(0) - z));
    case Activation::gelu_erf:
      return half * z * (whole(1) + function("erf", math::erf, z / function("√", std::sqrt, whole(2))));
    case Activation::tanh:
      return function("tanh", math::tanh, z);
    case Activation::gelu_tanh:
      break;
  }
  const Arithmetic inner =
      Arithmetic(std::sqrt(2 / 3.14159265358979323846)) * (z + Arithmetic(0.044715, "0.044715") * squared(z) * z);
  return half * z * (whole(1) + function("tanh", math::tanh, inner));
}
/// The activation function that the op has used: that of the layer's MLP or experts, if it gives some elements of the
/// output; else the one that comes closest to them.
Activation activation_of(const OpView& v) {
  constexpr std::int64_t kCompared = 32;
  constexpr double kEqual = 1e-5;
  const std::int64_t step = std::max<std::int64_t>(1, v.output().count() / kCompared);
  const auto differs_by = [&](Activation activation) {
    double largest = 0;
    for (std::int64_t i = 0; i < v.output().count(); i += step) {
      const double factor = v.op.inputs.size() > 1 ? static_cast<double>(v.input(1)[i]) : 1.0;  // of a gated one
      const double y = activated(activation, v.input(0)[i]).value() * factor;
      largest = std::max(largest, std::abs(y - static_cast<double>(v.output()[i])));
    }
    return largest;
  };
  if (v.op.layer >= 0 && v.facts.config->layers.empty()) {
    const auto* const moe = find<MoeConfig>(v.block());
    const auto* const dense = moe != nullptr ? &moe->expert : find<DenseConfig>(v.block());
    if (dense != nullptr && differs_by(dense->activation) < kEqual) return dense->activation;
  }
  constexpr std::array kAll = {Activation::relu, Activation::silu, Activation::gelu_erf, Activation::gelu_tanh,
                               Activation::tanh};
  std::array<double, kAll.size()> differences{};
  std::transform(kAll.begin(), kAll.end(), differences.begin(), differs_by);
  return kAll[static_cast<std::size_t>(std::min_element(differences.begin(), differences.end()) - differences.begin())];
}
std::string activation_formula(const OpView& v) {
  const Activation activation = activation_of(v);
  return activation == Activation::relu   ? "a_{t,i} = max(0, z_{t,i})"
         : activation == Activation::silu ? "a_{t,i} = {z_{t,i}}/{1 + exp(−z_{t,i})}"
         : activation == Activation::tanh ? "a_{t,i} = tanh(z_{t,i})"
                                          : "a_{t,i} = \"GELU\"(z_{t,i})";
}
Cell activate_cell(const OpView& v, std::int64_t i) { return activated(activation_of(v), v.input(0)[i]); }
std::string activate_gradient(const OpView& v, std::size_t) {
  return activation_of(v) == Activation::relu ? "da_{t,i} \"if\" z_{t,i} > 0, \"else\" 0" : "da_{t,i} · act'(z_{t,i})";
}
Cell activate_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  if (activation_of(v) != Activation::relu) return std::nullopt;
  return Arithmetic(v.gradient()[i]) * whole(v.input(0)[i] > 0 ? 1 : 0);
}
std::string gated_formula(const OpView& v) { return activation_formula(v) + " · u_{t,i}"; }
Cell gated_cell(const OpView& v, std::int64_t i) {
  return activated(activation_of(v), v.input(0)[i]) * Arithmetic(v.input(1)[i]);
}
std::string gated_gradient(const OpView&, std::size_t k) {
  return k == 0 ? "da_{t,i} · act'(z_{t,i}) · u_{t,i}" : "da_{t,i} · act(z_{t,i})";
}
Cell gated_gradient_cell(const OpView& v, std::size_t k, std::int64_t i) {
  if (k == 0) return std::nullopt;
  return Arithmetic(v.gradient()[i]) * activated(activation_of(v), v.input(0)[i]);
}

// Mixtures of experts

std::string shares_formula(const OpView&) { return "\"share\"_{t,r} = w_{t,e(r)}"; }
std::string shares_gradient(const OpView&, std::size_t) { return "d\"share\"_{t,r}"; }
std::string results_formula(const OpView& v) { return made(v) + "_{t} = Σ_{r} \"share\"_{t,r} · \"result\"_{t,r}"; }
Cell results_cell(const OpView& v, std::int64_t i) {
  const Seen &shares = v.input(0), &results = v.input(1);
  const std::int64_t k = shares.last_size(), d = results.last_size(), t = i / d;
  return dot(v.facts, shares, t * k, 1, results, t * k * d + i % d, d, k);
}
std::string results_gradient(const OpView& v, std::size_t k) {
  return k == 0 ? "Σ_{i} " + d_made(v) + "_{t,i} · \"result\"_{t,r,i}" : "\"share\"_{t,r} · " + d_made(v) + "_{t}";
}
std::string sigmoid_formula(const OpView& v) { return made(v) + " = {1}/{1 + exp(−x)}"; }
std::string sigmoid_gradient(const OpView& v, std::size_t) { return d_made(v) + " · y · (1 − y)"; }
std::string rows_formula(const OpView& v) { return made(v) + "_{t,i} = f_{t} · x_{t,i}"; }
std::string rows_gradient(const OpView& v, std::size_t k) {
  return k == 0 ? "f_{t} · " + d_made(v) + "_{t,i}" : "Σ_{i} " + d_made(v) + "_{t,i} · x_{t,i}";
}
std::string taken_formula(const OpView& v) { return made(v) + " = \"rows of\" x"; }

// add, scale, softcap

std::string add_formula(const OpView& v) {
  return made(v) + " = " + symbol(v.facts.operands[v.op.inputs[0]].last_name) + " + " +
         symbol(v.facts.operands[v.op.inputs[1]].last_name);
}
Cell add_cell(const OpView& v, std::int64_t i) { return Arithmetic(v.input(0)[i]) + Arithmetic(v.input(1)[i]); }

/// The factor that the op has used, computed from the largest element of its input.
Arithmetic factor_of(const OpView& v) {
  const auto smaller = [](float a, float b) { return std::abs(a) < std::abs(b); };
  const auto at =
      std::max_element(v.input(0).values.begin(), v.input(0).values.end(), smaller) - v.input(0).values.begin();
  return Arithmetic(static_cast<double>(v.output()[at]) / static_cast<double>(v.input(0)[at]));
}
std::string factor_formula(const OpView& v) { return made(v) + " = s · x"; }
Cell factor_cell(const OpView& v, std::int64_t i) { return factor_of(v) * Arithmetic(v.input(0)[i]); }
std::string factor_gradient(const OpView& v, std::size_t) { return "s · " + d_made(v); }
Cell factor_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  return factor_of(v) * Arithmetic(v.gradient()[i]);
}
std::string softcap_formula(const OpView& v) { return made(v) + " = c · tanh({x}/{c})"; }
Cell softcap_cell(const OpView& v, std::int64_t i) {
  const Arithmetic cap(*v.facts.config->head.softcap);
  return cap * function("tanh", math::tanh, Arithmetic(v.input(0)[i]) / cap);
}
std::string softcap_gradient(const OpView& v, std::size_t) { return d_made(v) + " · (1 − ({y}/{c})^{2})"; }

// next_token_loss

std::string loss_formula(const OpView&) { return "L_{t} = −ln p_{t,\"next\"}"; }
Cell loss_cell(const OpView& v, std::int64_t t) {
  const Seen& p = v.facts.values.at("softmax");
  return whole(0) -
         function("ln", math::log, Arithmetic(p[t * p.last_size() + v.facts.targets[static_cast<std::size_t>(t)]]));
}
std::string loss_gradient(const OpView&, std::size_t) { return "w_{t} · (p_{t,v} − [v = \"target\"])"; }
Cell loss_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  const Seen& p = v.facts.values.at("softmax");
  const auto t = static_cast<std::size_t>(i / p.last_size());
  if (v.facts.weights[t] == 0) return std::nullopt;
  return Arithmetic(p[i]) - whole(i % p.last_size() == v.facts.targets[t] ? 1 : 0);
}

constexpr OpKind kKinds[] = {
    {"embed", "src/ops/embed.cpp", embed_formula, embed_cell, passed_on, nullptr, "Σ_{\"t with\" id(t) = v} dx_{t}"},
    {"embed_positions", "src/ops/embed.cpp", positions_formula, nullptr, passed_on, nullptr, "dx_{t}"},
    {"linear", "src/ops/linear.cpp", linear_formula, linear_cell, linear_gradient, linear_gradient_cell,
     "Σ_{t} dy_{t,o} · x_{t,i}"},
    {"norm_scale", "src/ops/norm.cpp", scale_formula, scale_cell, scale_gradient, scale_gradient_cell},
    {"norm_divide", "src/ops/norm.cpp", divide_formula, divide_cell, divide_gradient, divide_gradient_cell},
    {"norm_weight", "src/ops/norm.cpp", weight_formula, weight_cell, weight_gradient, weight_gradient_cell,
     "Σ_{t} dy_{t,i} · n_{t,i}"},
    {"activate", "src/ops/elementwise.cpp", activation_formula, activate_cell, activate_gradient,
     activate_gradient_cell},
    {"gated", "src/ops/elementwise.cpp", gated_formula, gated_cell, gated_gradient, gated_gradient_cell},
    {"shares_of", "src/ops/route.cpp", shares_formula, nullptr, shares_gradient, nullptr},
    {"take_rows", "src/ops/route.cpp", taken_formula, nullptr, passed_on, nullptr},
    {"mix_results", "src/ops/route.cpp", results_formula, results_cell, results_gradient, nullptr},
    {"run_experts", "src/model/moe.cpp", taken_formula, nullptr, passed_on, nullptr},
    {"sigmoid", "src/ops/elementwise.cpp", sigmoid_formula, nullptr, sigmoid_gradient, nullptr},
    {"multiply_rows", "src/ops/elementwise.cpp", rows_formula, nullptr, rows_gradient, nullptr},
    {"add", "src/ops/elementwise.cpp", add_formula, add_cell, passed_on, passed_cell},
    {"scale", "src/ops/elementwise.cpp", factor_formula, factor_cell, factor_gradient, factor_gradient_cell},
    {"softcap", "src/ops/elementwise.cpp", softcap_formula, softcap_cell, softcap_gradient, nullptr},
    {"next_token_loss", "src/ops/loss.cpp", loss_formula, loss_cell, loss_gradient, loss_gradient_cell, {}, false},
};

}  // namespace

Arithmetic whole(std::int64_t n) { return {static_cast<double>(n), std::to_string(n)}; }
Arithmetic exponential(const Arithmetic& x) { return function("exp", math::exp, x); }

const OpKind* kind_of(const StepOp& op) {
  for (const std::span<const OpKind> kinds : {std::span<const OpKind>(kKinds), attention_kinds()}) {
    const auto it = std::find_if(kinds.begin(), kinds.end(), [&](const OpKind& k) { return k.name == op.kind; });
    if (it != kinds.end()) return &*it;
  }
  return nullptr;
}

std::string symbol(const std::string& site) {
  if (site.empty()) return "x";
  const std::size_t hook = site.rfind("hook_");
  const std::string word = site.substr(hook == std::string::npos ? site.rfind('.') + 1 : hook + 5);
  return word.find('_') == std::string::npos ? word : "\"" + word + "\"";
}

Arithmetic dot(const ForwardFacts& facts, const Seen& x, std::int64_t x_first, std::int64_t x_step, const Seen& w,
               std::int64_t w_first, std::int64_t w_step, std::int64_t n) {
  std::vector<Arithmetic> terms;
  std::size_t written = 0;
  std::int64_t i = 0;
  for (; i < n && written <= facts.most_text; ++i) {
    const float factor = x[x_first + i * x_step];
    if (factor == 0 && (!terms.empty() || i + 1 < n)) continue;
    terms.push_back(Arithmetic(factor) * Arithmetic(w[w_first + i * w_step]));
    written += terms.back().text().size();
  }
  Arithmetic sum = sum_of(terms);
  for (; i < n; ++i) {
    const float factor = x[x_first + i * x_step];
    if (factor != 0) sum.add_unwritten(static_cast<double>(factor) * w[w_first + i * w_step]);
  }
  return sum;
}

}  // namespace vitrine
