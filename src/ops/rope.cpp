#include "ops/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/math.h"
#include "ops/describe.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

/// theta^(2i / dim) of each pair, rounded to float32 as in the reference.
std::vector<float> wavelengths(double theta, std::int64_t dim) {
  std::vector<float> powers(static_cast<std::size_t>(dim / 2));
  for (std::size_t i = 0; i < powers.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    powers[i] = static_cast<float>(math::pow(theta, static_cast<double>(exponent)));
  }
  return powers;
}

/// Computes the frequencies of each scaling. Wavelengths are 1 / frequency, in positions per radian.
struct Scaler {
  double theta;
  std::int64_t dim;
  std::int64_t length;

  std::vector<float> of_each(auto&& frequency_of) const {
    std::vector<float> values = wavelengths(theta, dim);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = frequency_of(values[i], i);
    return values;
  }

  std::vector<float> operator()(const std::monostate&) const {
    return of_each([](float w, std::size_t) { return 1.0f / w; });
  }

  std::vector<float> operator()(const LinearScaling& s) const {
    return of_each([&](float w, std::size_t) { return 1.0f / w / static_cast<float>(s.factor); });
  }

  std::vector<float> operator()(const Llama3Scaling& s) const {
    const auto low_wavelength = static_cast<float>(s.original_max_seq_len / s.low_freq_factor);
    const auto high_wavelength = static_cast<float>(s.original_max_seq_len / s.high_freq_factor);
    return of_each([&](float w, std::size_t) {
      const float frequency = 1.0f / w;
      const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
      if (wavelength < high_wavelength) return frequency;
      const float stretched = frequency / static_cast<float>(s.factor);
      if (wavelength > low_wavelength || low_wavelength == high_wavelength) return stretched;
      const float smooth =
          (static_cast<float>(s.original_max_seq_len) / wavelength - static_cast<float>(s.low_freq_factor)) /
          static_cast<float>(s.high_freq_factor - s.low_freq_factor);
      return (1.0f - smooth) * stretched + smooth * frequency;
    });
  }

  std::vector<float> operator()(const YarnScaling& s) const {
    const auto d = static_cast<double>(dim);
    const auto pair_of = [&](double rotations) {  // the pair that rotates so many times within the original context
      return d * math::log(s.original_max_seq_len / (rotations * 2 * std::numbers::pi)) / (2 * math::log(theta));
    };
    double low = pair_of(s.beta_fast), high = pair_of(s.beta_slow);
    if (s.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, d - 1);
    if (low == high) high += 0.001;
    return of_each([&](float w, std::size_t i) {
      const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
      const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
      return 1.0f / (static_cast<float>(s.factor) * w) * (1.0f - kept) + 1.0f / w * kept;
    });
  }

  std::vector<float> operator()(const LongRopeScaling& s) const {
    const std::vector<float>& divisors = length > s.original_max_seq_len ? s.long_factor : s.short_factor;
    return of_each([&](float w, std::size_t i) { return 1.0f / (divisors[i] * w); });
  }

  std::vector<float> operator()(const DynamicNtkScaling& s) const {
    if (length <= s.original_max_seq_len) return (*this)(std::monostate{});
    const auto n = static_cast<float>(length), original = static_cast<float>(s.original_max_seq_len);
    const auto factor = static_cast<float>(s.factor);
    const float growth = factor * n / original - static_cast<float>(s.factor - 1);
    const double exponent = static_cast<double>(dim) / static_cast<double>(dim - 2);
    const float grown =
        static_cast<float>(theta) * static_cast<float>(math::pow(static_cast<double>(growth), exponent));
    return Scaler{static_cast<double>(grown), dim, length}(std::monostate{});
  }

  std::vector<float> operator()(const ProportionalScaling& s) const {
    return of_each([&](float w, std::size_t i) {
      return static_cast<std::int64_t>(i) < s.n_rotated ? 1.0f / w / static_cast<float>(s.factor) : 0.0f;
    });
  }
};

}  // namespace

std::vector<float> rope_frequency(double theta, std::int64_t dim, const RopeScaling& scaling, std::int64_t length) {
  return std::visit(Scaler{theta, dim, length}, scaling);
}

bool depends_on_length(const RopeScaling& scaling) {
  return std::holds_alternative<LongRopeScaling>(scaling) || std::holds_alternative<DynamicNtkScaling>(scaling);
}

RopeConfig make_rope(double theta, std::int64_t dim, RopeConfig::Layout layout, const RopeScaling& scaling,
                     float magnitude) {
  return {theta, dim, layout, scaling, magnitude, rope_frequency(theta, dim, scaling), false};
}

namespace {

Rotations rotations(Pass& p, const RopeConfig& c, std::int64_t n_rows, Stack stack) {
  const std::int64_t pairs = c.dim / 2;
  const Rotations to{p.tensor({n_rows, pairs}), p.tensor({n_rows, pairs})};
  for (const Segment& s : p.segments_of(stack)) {
    const std::vector<float> of_length = depends_on_length(c.scaling)
                                             ? rope_frequency(c.theta, c.dim, c.scaling, s.planned_length())
                                             : std::vector<float>{};
    const float* frequency = of_length.empty() ? c.frequency.data() : of_length.data();
    p.for_rows(s.length, 16 * pairs, [&](std::int64_t i) {
      const std::int64_t t = s.first_row + i;
      float* const angle = to.cos.row(t);
      p.kernels.scale(frequency, pairs, static_cast<float>(s.position + i), angle);
      p.kernels.sin_cos(angle, pairs, to.sin.row(t), to.cos.row(t));
      if (c.reversed) p.kernels.scale(to.sin.row(t), pairs, -1.0f, to.sin.row(t));
      if (c.magnitude == 1.0f) return;
      p.kernels.scale(to.sin.row(t), pairs, c.magnitude, to.sin.row(t));
      p.kernels.scale(to.cos.row(t), pairs, c.magnitude, to.cos.row(t));
    });
  }
  return to;
}

/// y = x with every head rotated.
void rotate(Pass& p, const RopeConfig& c, const Rotations& by, const Tensor& x, const Tensor& y) {
  const std::int64_t n_heads = x.shape[1], head_dim = x.shape[2], pairs = c.dim / 2;
  const auto kernel = c.layout == RopeConfig::Layout::halves ? p.kernels.rotate_halves : p.kernels.rotate_interleaved;
  p.for_rows(x.rows(), x.row_size(), [&](std::int64_t t) {
    for (std::int64_t head = 0; head < n_heads; ++head) {
      const float* from = x.row(t) + head * head_dim;
      float* to = y.row(t) + head * head_dim;
      kernel(from, by.cos.row(t), by.sin.row(t), pairs, to);
      std::copy(from + c.dim, from + head_dim, to + c.dim);
    }
  });
}

}  // namespace

void RopeTables::prepare(Pass& p, const RopeConfig& c, std::int64_t n_rows, Stack stack) {
  if (find(c) == nullptr) tables_.push_back({&c, rotations(p, c, n_rows, stack)});
}

const Rotations& RopeTables::of(const RopeConfig& c) const {
  const Table* const found = find(c);
  if (found == nullptr) throw InternalError("rope", "the rotations have not been computed");
  return found->rotations;
}

const RopeTables::Table* RopeTables::find(const RopeConfig& c) const {
  const auto is_same = [&](const Table& table) { return table.config == &c || *table.config == c; };
  const auto it = std::find_if(tables_.begin(), tables_.end(), is_same);
  return it != tables_.end() ? &*it : nullptr;
}

Tensor rope(Pass& p, const RopeConfig& c, const Rotations& by, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  rotate(p, c, by, x, y);
  p.record({OpKind::rope, &c}, {x}, y, [&p, &c, by, x, y] {  // dx = dy rotated back
    const Tensor dx = p.grad(x), dy = p.grad(y);
    const ArenaScope scope(p.arena);
    const Rotations back{by.cos, p.tensor(by.sin.shape)};
    const Tensor rotated = p.tensor(x.shape);
    p.for_rows(x.rows(), by.sin.row_size(),
               [&](std::int64_t t) { p.kernels.scale(by.sin.row(t), by.sin.row_size(), -1.0f, back.sin.row(t)); });
    rotate(p, c, back, dy, rotated);
    accumulate(p, rotated, dx);
  });
  return y;
}

namespace {

/// The other element of the pair of element i of a value `[T, n_heads, head_dim]`; i itself if it is not rotated.
std::int64_t other_of_pair(const OpView& v, std::int64_t i) {
  const auto& c = v.config<RopeConfig>();
  const std::int64_t e = i % v.output().last_size(), half = c.dim / 2;
  if (e >= c.dim) return i;
  if (c.layout == RopeConfig::Layout::halves) return e >= half ? i - half : i + half;
  return e % 2 == 1 ? i - 1 : i + 1;
}
OpDescription::Elements rope_elements(const OpView& v, std::int64_t i) {
  const std::int64_t other = other_of_pair(v, i);
  if (other == i) return {of_input(0, i)};
  return {of_input(0, i), of_input(0, other)};
}
/// One element of a pair rotated by +θ (forward) or −θ (backward). Empty for elements that are not rotated.
Cell rotated_cell(const OpView& v, const Seen& x, std::int64_t i, bool backward) {
  const auto& c = v.config<RopeConfig>();
  const std::int64_t other = other_of_pair(v, i), first = std::min(i, other) % v.output().last_size();
  if (other == i) return std::nullopt;
  const std::int64_t pair = c.layout == RopeConfig::Layout::halves ? first : first / 2;
  const std::int64_t t = i / (v.output().count() / v.trace.n_tokens());
  const std::vector<float> frequency = rope_frequency(c.theta, c.dim, c.scaling, v.trace.n_tokens());
  const Arithmetic angle(static_cast<double>(t) * static_cast<double>(frequency[static_cast<std::size_t>(pair)]));
  const Arithmetic along = Arithmetic(x[i]) * function("cos", math::cos, angle);
  const Arithmetic across = Arithmetic(x[other]) * function("sin", math::sin, angle);
  const Arithmetic sum = (other < i) != (backward != c.reversed) ? along + across : along - across;
  return c.magnitude != 1 ? sum * Arithmetic(c.magnitude) : sum;
}
std::string rope_formula(const OpView& v) {
  const std::string sign = v.config<RopeConfig>().reversed ? "−" : "";
  return "x' = x · cos θ − y · sin θ, y' = y · cos θ + x · sin θ, θ = " + sign + "t · f_{i}";
}
Cell rope_cell(const OpView& v, std::int64_t i) { return rotated_cell(v, v.input(0), i, false); }
Cell rope_gradient_cell(const OpView& v, std::size_t, std::int64_t i) { return rotated_cell(v, v.gradient(), i, true); }

}  // namespace

constexpr OpDescription rope_op{"src/ops/rope.cpp",
                                {rope_formula, rope_cell, rope_elements},
                                {"(dx' · cos θ + dy' · sin θ, dy' · cos θ − dx' · sin θ)", rope_gradient_cell}};

}  // namespace vitrine
