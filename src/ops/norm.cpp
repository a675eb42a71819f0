#include "ops/norm.h"

#include <cmath>

#include "ops/describe.h"

namespace vitrine {
namespace {

/// x `[T, d]` or `[T, n, d]` as rows of d elements.
struct Rows {
  std::int64_t n, d;

  explicit Rows(const Tensor& x) : n(x.count() / x.shape[x.shape.rank() - 1]), d(x.shape[x.shape.rank() - 1]) {}
  float* row(const Tensor& of, std::int64_t t) const { return of.data + t * d; }
};

float mean_of(const Pass& p, const NormConfig& c, const float* x, std::int64_t d) {
  return c.kind == NormConfig::Kind::layer ? p.kernels.sum(x, d) / static_cast<float>(d) : 0.0f;
}
float divisor_of(const Pass& p, const NormConfig& c, const float* x, std::int64_t d, float mean) {
  return std::sqrt(p.kernels.sum_squares(x, d, mean) / static_cast<float>(d) + c.eps);
}

/// The weight and the bias as floats, for each vector of a row.
struct Weights {
  const float *weight, *bias;
  std::int64_t n, d;

  Weights(Pass& p, const NormParams& w, std::int64_t size)
      : weight(p.vector(w.weight)),
        bias(w.bias.present() ? p.vector(w.bias) : nullptr),
        n(w.weight.view.cols / size),
        d(size) {}
  std::int64_t offset_of(std::int64_t t) const { return t % n * d; }
  const float* weight_of(std::int64_t t) const { return weight + offset_of(t); }
  const float* bias_of(std::int64_t t) const { return bias != nullptr ? bias + offset_of(t) : nullptr; }
};

void enter_reads(Pass& p, const NormParams& w) {
  if (p.ledger == nullptr) return;
  p.ledger->reads(w.weight);
  if (w.bias.present()) p.ledger->reads(w.bias);
}

/// mean[t] = mean of row t, or 0 for RMSNorm: `[rows]`.
Tensor means(Pass& p, const NormConfig& c, const Tensor& x) {
  const Rows rows(x);
  const Tensor mean = p.tensor({rows.n});
  p.for_rows(rows.n, rows.d, [&](std::int64_t t) { mean.data[t] = mean_of(p, c, rows.row(x, t), rows.d); });
  return mean;
}

/// scale = √(Σ (x − mean)² / d + eps)
Tensor divisors(Pass& p, const NormConfig& c, const Tensor& x, const Tensor& mean) {
  const Rows rows(x);
  const auto d = static_cast<float>(rows.d);
  const Tensor scale = p.tensor(x.shape.rank() == 3 ? Shape{x.shape[0], x.shape[1], 1} : Shape{rows.n, 1});
  p.for_rows(rows.n, rows.d,
             [&](std::int64_t t) { scale.data[t] = divisor_of(p, c, rows.row(x, t), rows.d, mean.data[t]); });
  // d scale / d x = (x − mean) / (d · scale); the term through the mean is 0, because Σ (x − mean) = 0.
  p.record({OpKind::norm_scale, &c}, {x}, scale, [&p, rows, d, x, mean, scale] {
    if (p.training.linearizes) return;
    const Tensor dx = p.grad(x), dscale = p.grad(scale);
    const ArenaScope scope(p.arena);
    const Tensor centered = p.tensor({rows.n, rows.d});
    p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
      p.kernels.normalize(rows.row(x, t), rows.d, mean.data[t], d * scale.data[t], centered.row(t));
      p.kernels.add_scaled(centered.row(t), rows.d, dscale.data[t], rows.row(dx, t));
    });
  });
  return scale;
}

/// normalized = (x − mean) / scale
Tensor divided(Pass& p, const NormConfig& c, const Tensor& x, const Tensor& mean, const Tensor& scale) {
  const Rows rows(x);
  const Tensor y = p.tensor(x.shape);
  p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
    p.kernels.normalize(rows.row(x, t), rows.d, mean.data[t], scale.data[t], rows.row(y, t));
  });
  // dx = dy / scale, minus its mean if the norm subtracts the mean; dscale = −Σ dy · y / scale
  const bool centered = c.kind == NormConfig::Kind::layer;
  p.record({OpKind::norm_divide, &c}, {x, scale}, y, [&p, rows, centered, x, scale, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    const Tensor dscale = p.training.linearizes ? Tensor() : p.grad(scale);
    const ArenaScope scope(p.arena);
    const Tensor divided = p.tensor({rows.n, rows.d});
    p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
      float* const g = divided.row(t);
      if (dscale.data != nullptr)
        dscale.data[t] -= p.kernels.dot(rows.row(dy, t), rows.row(y, t), rows.d) / scale.data[t];
      p.kernels.normalize(rows.row(dy, t), rows.d, 0.0f, scale.data[t], g);
      if (centered) p.kernels.normalize(g, rows.d, p.kernels.sum(g, rows.d) / static_cast<float>(rows.d), 1.0f, g);
      p.kernels.add(rows.row(dx, t), g, rows.d, rows.row(dx, t));
    });
  });
  return y;
}

/// y = x · (weight_offset + w) + b
Tensor weighted(Pass& p, const NormConfig& c, const NormParams& w, const Tensor& x) {
  const Rows rows(x);
  const Tensor y = p.tensor(x.shape);
  const Weights weights(p, w, rows.d);
  p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
    p.kernels.affine(rows.row(x, t), weights.weight_of(t), c.weight_offset, weights.bias_of(t), rows.d, rows.row(y, t));
  });
  // dx = dy · (weight_offset + w); dw = Σ_t dy · x; db = Σ_t dy
  p.record({OpKind::norm_weight, &c}, {x}, y, [&p, &w, rows, weights, w_offset = c.weight_offset, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y), dw = p.grad(w.weight), db = p.grad(w.bias);
    const ArenaScope scope(p.arena);
    const Tensor product = p.tensor({rows.n, rows.d});
    p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
      p.kernels.affine(rows.row(dy, t), weights.weight_of(t), w_offset, nullptr, rows.d, product.row(t));
      p.kernels.add(rows.row(dx, t), product.row(t), rows.d, rows.row(dx, t));
    });
    p.for_columns(rows.d, rows.n, [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t t = 0; t < rows.n; ++t) {
        const float* const g = rows.row(dy, t) + first;
        const std::int64_t to = weights.offset_of(t) + first;
        if (dw.data != nullptr) p.kernels.multiply_add(g, rows.row(x, t) + first, count, dw.data + to);
        if (db.data != nullptr) p.kernels.add(db.data + to, g, count, db.data + to);
      }
    });
  });
  enter_reads(p, w);
  return y;
}

/// Applies all steps to one row after the other, while the row is in the L1 cache. Rounds where the ops above do.
Tensor fused(Pass& p, const NormConfig& c, const NormParams& w, const Tensor& x) {
  const Rows rows(x);
  const Tensor y = p.tensor(x.shape);
  const std::optional<Weights> weights = c.weight ? std::optional<Weights>(std::in_place, p, w, rows.d) : std::nullopt;
  p.for_rows(rows.n, 4 * rows.d, [&](std::int64_t t) {
    const float* const from = rows.row(x, t);
    float* const to = rows.row(y, t);
    const float mean = mean_of(p, c, from, rows.d);
    p.kernels.normalize(from, rows.d, mean, divisor_of(p, c, from, rows.d, mean), to);
    if (!weights) return;
    p.kernels.affine(to, weights->weight_of(t), c.weight_offset, weights->bias_of(t), rows.d, to);
  });
  p.record(OpKind::norm, {x}, y, [] {});
  if (c.weight) enter_reads(p, w);
  return y;
}

}  // namespace

Tensor norm(Pass& p, const NormSite& at, const NormConfig& c, const NormParams& w, const Tensor& x) {
  return p.tap(at.out, norm(p, at.scale, at.normalized, c, w, x));
}

Tensor norm(Pass& p, const SiteId& scale_site, const SiteId& normalized_site, const NormConfig& c, const NormParams& w,
            const Tensor& x) {
  if (!p.is_taped() && !p.wants(scale_site) && !p.wants(normalized_site)) return fused(p, c, w, x);
  const Tensor mean = means(p, c, x);
  const Tensor scale = p.tap(scale_site, divisors(p, c, x, mean));
  const Tensor normalized = p.tap(normalized_site, divided(p, c, x, mean, scale));
  return c.weight ? weighted(p, c, w, normalized) : normalized;
}

Tensor plain_norm(Pass& p, const NormConfig& c, const NormParams& w, const Tensor& x) {
  if (!p.is_taped()) return fused(p, c, w, x);
  const Tensor mean = means(p, c, x);
  const Tensor normalized = divided(p, c, x, mean, divisors(p, c, x, mean));
  return c.weight ? weighted(p, c, w, normalized) : normalized;
}

namespace {

bool is_centered(const OpView& v) { return v.config<NormConfig>().kind == NormConfig::Kind::layer; }
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

OpDescription::Elements norm_scale_elements(const OpView& v, std::int64_t row) {
  const std::int64_t d = v.input(0).count() / v.output().count();
  return {of_input(0, row * d, d)};
}
Cell norm_scale_cell(const OpView& v, std::int64_t row) {
  const Seen& x = v.input(0);
  const std::int64_t d = x.count() / v.output().count(), end = (row + 1) * d;
  const double mean = is_centered(v) ? mean_of(x, row * d, d) : 0;
  std::vector<Arithmetic> squares;
  std::size_t written = 0;
  std::int64_t i = row * d;
  for (; i < end && written <= v.trace.max_text; ++i) {
    squares.push_back(squared(is_centered(v) ? Arithmetic(x[i]) - Arithmetic(mean) : Arithmetic(x[i])));
    written += squares.back().text().size();
  }
  Arithmetic sum = sum_of(squares);
  for (; i < end; ++i) {
    const double difference = static_cast<double>(x[i]) - mean;
    sum.add_unwritten(difference * difference);
  }
  const auto eps = static_cast<double>(v.config<NormConfig>().eps);
  return function("√", std::sqrt, sum / whole(d) + Arithmetic(eps, decimal(eps, 3)));
}
Cell norm_scale_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  const std::int64_t d = v.input(0).count() / v.output().count();
  return Arithmetic(v.gradient()[i / d]) * centered(v, i, d) / (whole(d) * Arithmetic(v.output()[i / d]));
}

std::int64_t width_of(const OpView& v) { return v.input(0).count() / v.input(1).count(); }
OpDescription::Elements norm_divide_elements(const OpView& v, std::int64_t i) {
  return {of_input(0, i), of_input(1, i / width_of(v))};
}
Cell norm_divide_cell(const OpView& v, std::int64_t i) {
  const std::int64_t d = width_of(v);
  return centered(v, i, d) / Arithmetic(v.input(1)[i / d]);
}
Cell norm_divide_gradient_cell(const OpView& v, std::size_t k, std::int64_t i) {
  const Seen& dn = v.gradient();
  const std::int64_t d = width_of(v);
  if (k == 1) return Arithmetic(0, "0") - dot(v, dn, i * d, 1, v.output(), i * d, 1, d) / Arithmetic(v.input(1)[i]);
  const Arithmetic own(dn[i]);
  return (is_centered(v) ? own - Arithmetic(mean_of(dn, i / d * d, d)) : own) / Arithmetic(v.input(1)[i / d]);
}

OpDescription::Elements norm_weight_elements(const OpView& v, std::int64_t i) {
  const std::int64_t n = v.weight().count();
  OpDescription::Elements elements = {of_input(0, i), of_param(v.op.param, i % n)};
  if (v.bias() != nullptr) elements.push_back(of_param(v.bias_name(), i % n));
  return elements;
}
Arithmetic gain_of(const OpView& v, std::int64_t i) {
  const auto offset = static_cast<double>(v.config<NormConfig>().weight_offset);
  const Arithmetic gain(v.weight()[i % v.weight().count()]);
  return offset == 0 ? gain : Arithmetic(offset, decimal(offset, 0)) + gain;
}
bool has_offset(const OpView& v) { return v.config<NormConfig>().weight_offset != 0; }
std::string norm_weight_formula(const OpView& v) {
  return std::string("y_{t,i} = n_{t,i} · ") + (has_offset(v) ? "(1 + g_{i})" : "g_{i}") +
         (v.bias() != nullptr ? " + b_{i}" : "");
}
Cell norm_weight_cell(const OpView& v, std::int64_t i) {
  const Arithmetic product = Arithmetic(v.input(0)[i]) * gain_of(v, i);
  return v.bias() == nullptr ? product : product + Arithmetic((*v.bias())[i % v.bias()->count()]);
}
Cell norm_weight_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  return Arithmetic(v.gradient()[i]) * gain_of(v, i);
}
void add_norm_weight_terms(const OpView& v, std::int64_t flat, std::vector<Arithmetic>& terms) {
  const std::int64_t n = v.weight().count();
  for (std::int64_t i = flat; i < v.gradient().count(); i += n) {
    if (v.gradient()[i] != 0) terms.push_back(Arithmetic(v.gradient()[i]) * Arithmetic(v.input(0)[i]));
  }
}

}  // namespace

constexpr std::string_view kNorm = "src/ops/norm.cpp";
constexpr OpDescription norm_scale_op{
    kNorm,
    {{is_centered, "σ_{t} = √(\"mean\"_{i} (x_{t,i} − μ_{t})^{2} + ε)", "σ_{t} = √(\"mean\"_{i} x_{t,i}^{2} + ε)"},
     norm_scale_cell,
     norm_scale_elements},
    {{is_centered, "{dσ_{t} · (x_{t,i} − μ_{t})}/{N · σ_{t}}", "{dσ_{t} · x_{t,i}}/{N · σ_{t}}"},
     norm_scale_gradient_cell}};
constexpr OpDescription norm_divide_op{
    kNorm,
    {{is_centered, "n_{t,i} = {x_{t,i} − μ_{t}}/{σ_{t}}", "n_{t,i} = {x_{t,i}}/{σ_{t}}"},
     norm_divide_cell,
     norm_divide_elements},
    {{is_centered, "{dn_{t,i} − \"mean\" dn_{t}}/{σ_{t}}", "{dn_{t,i}}/{σ_{t}}"},
     norm_divide_gradient_cell,
     "−{1}/{σ_{t}} Σ_{i} dn_{t,i} · n_{t,i}"}};
constexpr OpDescription norm_weight_op{
    kNorm,
    {norm_weight_formula, norm_weight_cell, norm_weight_elements},
    {{has_offset, "dy_{t,i} · (1 + g_{i})", "dy_{t,i} · g_{i}"}, norm_weight_gradient_cell},
    {"Σ_{t} dy_{t,i} · n_{t,i}", add_norm_weight_terms}};

}  // namespace vitrine
