// Quantizes to q6_k. Scales minimize the squared error, weighted by the square of each element.
//
// Source: ggml-org/ggml, src/ggml-quants.c (make_qx_quants, quantize_row_q6_K_ref), in the same order of operations.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "quant/formats.h"

namespace vitrine {
namespace {

constexpr int kBlock = 256, kPart = 16, kParts = kBlock / kPart;
constexpr int kLevels = 32;            // values are −32 to 31
constexpr float kNegligible = 1e-15F;  // parts with smaller elements are stored as 0
constexpr float kRounder =
    12582912.0F;  // 1.5 · 2^23: adding it rounds a number below 2^22 to the nearest integer, ties to even

int nearest(float x) {
  const float sum = x + kRounder;
  std::int32_t bits = 0;
  std::memcpy(&bits, &sum, sizeof bits);
  return (bits & 0x007FFFFF) - 0x00400000;
}

int value_of(float x) { return std::clamp(nearest(x), -kLevels, kLevels - 1); }

/// Σ x² · x v and Σ x² · v v, the sums that determine the weighted squared error of a scale.
struct Fit {
  float xv = 0, vv = 0;
};

Fit fit_of(const float* x, float inverse) {
  Fit fit;
  for (int i = 0; i < kPart; ++i) {
    const auto v = static_cast<float>(value_of(inverse * x[i]));
    const float weight = x[i] * x[i];
    fit.xv += weight * x[i] * v;
    fit.vv += weight * v * v;
  }
  return fit;
}

struct PartScale {
  float scale = 0;
  float inverse = 0;  // the factor of the elements for which the scale was found
};

/// The best scale of a part, among nineteen scales close to the one with which its largest element becomes −32.
PartScale scale_of_part(const float* x) {
  const float extreme = extreme_of(x, kPart);
  if (std::abs(extreme) < kNegligible) return {};
  PartScale found;
  found.inverse = static_cast<float>(-kLevels) / extreme;
  const Fit first = fit_of(x, found.inverse);
  found.scale = first.vv != 0 ? first.xv / first.vv : 0.0F;
  float best = found.scale * first.xv;
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    const float inverse = -(static_cast<float>(kLevels) + 0.1F * static_cast<float>(step)) / extreme;
    const Fit fit = fit_of(x, inverse);
    if (!(fit.vv > 0 && fit.xv * fit.xv > best * fit.vv)) continue;
    found = {fit.xv / fit.vv, inverse};
    best = found.scale * fit.xv;
  }
  return found;
}

/// The elements of a part as stored, 0 to 63. If `step` is 0, all elements dequantize to 0; as ggml does, this stores
/// the values found with the part's own scale.
void round_part(const float* x, const PartScale& part, float step, int* values) {
  for (int i = 0; i < kPart; ++i) {
    if (step != 0) {
      values[i] = value_of(x[i] / step) + kLevels;
    } else {
      values[i] = part.inverse != 0 ? value_of(part.inverse * x[i]) + kLevels : 0;
    }
  }
}

/// Stores values in the layout that dequantize_q6_k reads.
void pack(const std::array<int, kBlock>& values, std::byte* block) {
  for (int half = 0; half < 2; ++half) {
    const int* const v = values.data() + 128 * half;
    for (int i = 0; i < 64; ++i) block[64 * half + i] = byte_of((v[i] & 15) | (v[64 + i] & 15) << 4);
    for (int i = 0; i < 32; ++i) {
      block[128 + 32 * half + i] =
          byte_of(v[i] >> 4 | (v[32 + i] >> 4) << 2 | (v[64 + i] >> 4) << 4 | (v[96 + i] >> 4) << 6);
    }
  }
}

}  // namespace

bool quantize_q6_k(const float* x, std::byte* block) {
  std::array<PartScale, kParts> parts{};
  std::array<float, kParts> scales{};
  for (std::size_t i = 0; i < kParts; ++i) {
    parts[i] = scale_of_part(x + kPart * i);
    scales[i] = parts[i].scale;
    if (!std::isfinite(scales[i])) return false;
  }
  const float extreme = extreme_of(scales.data(), kParts);
  std::fill_n(block, block_size(DType::q6_k).bytes, std::byte{0});
  if (std::abs(extreme) < kNegligible) return true;
  const float inverse = -128.0F / extreme;
  put_half(block + 208, 1.0F / inverse);
  const float d = half_at(block + 208);
  std::array<int, kBlock> values{};
  for (std::size_t i = 0; i < kParts; ++i) {
    const int scale = std::min(127, nearest(inverse * scales[i]));
    block[192 + i] = byte_of(scale);
    round_part(x + kPart * i, parts[i], d * static_cast<float>(scale), values.data() + kPart * i);
  }
  pack(values, block);
  return std::abs(d) <= kLargestHalf;
}

}  // namespace vitrine
