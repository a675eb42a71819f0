#include "ops/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vitrine {
namespace {

float scaled(float frequency, const LinearScaling& s) { return frequency / static_cast<float>(s.factor); }

float scaled(float frequency, const BandScaling& s) {
  const auto low_wavelength = static_cast<float>(s.original_max_seq_len / s.low_freq_factor);
  const auto high_wavelength = static_cast<float>(s.original_max_seq_len / s.high_freq_factor);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (wavelength < high_wavelength) return frequency;
  const float stretched = frequency / static_cast<float>(s.factor);
  if (wavelength > low_wavelength) return stretched;
  const float smooth =
      (static_cast<float>(s.original_max_seq_len) / wavelength - static_cast<float>(s.low_freq_factor)) /
      static_cast<float>(s.high_freq_factor - s.low_freq_factor);
  return (1.0f - smooth) * stretched + smooth * frequency;
}

float scaled(float frequency, const std::monostate&) { return frequency; }

}  // namespace

std::vector<float> rope_frequency(double theta, std::int64_t dim, const RopeScaling& scaling) {
  std::vector<float> frequency(static_cast<std::size_t>(dim / 2));
  for (std::size_t i = 0; i < frequency.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    const float plain = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    frequency[i] = std::visit([&](const auto& s) { return scaled(plain, s); }, scaling);
  }
  return frequency;
}

RopeConfig make_rope(double theta, std::int64_t dim, RopeConfig::Layout layout, const RopeScaling& scaling) {
  return {theta, dim, layout, scaling, rope_frequency(theta, dim, scaling)};
}

Tensor rope(Pass& p, const RopeConfig& c, const Tensor& x) {
  const std::int64_t n_heads = x.shape[1];
  const std::int64_t head_dim = x.shape[2];
  const std::int64_t pairs = c.dim / 2;
  const Tensor angle = p.tensor({x.rows(), pairs});
  const Tensor sin = p.tensor({x.rows(), pairs});
  const Tensor cos = p.tensor({x.rows(), pairs});
  const Tensor y = p.tensor(x.shape);
  const auto rotate = c.layout == RopeConfig::Layout::halves ? p.kernels.rotate_halves : p.kernels.rotate_interleaved;

  for (const Segment& s : p.segments) {
    p.for_rows(s.length, x.row_size() + 16 * pairs, [&](std::int64_t i) {
      const std::int64_t t = s.first_row + i;
      p.kernels.scale(c.frequency.data(), pairs, static_cast<float>(s.position + i), angle.row(t));
      p.kernels.sin_cos(angle.row(t), pairs, sin.row(t), cos.row(t));
      for (std::int64_t head = 0; head < n_heads; ++head) {
        const float* from = x.row(t) + head * head_dim;
        float* to = y.row(t) + head * head_dim;
        rotate(from, cos.row(t), sin.row(t), pairs, to);
        std::copy(from + c.dim, from + head_dim, to + c.dim);
      }
    });
  }
  return y;
}

}  // namespace vitrine
