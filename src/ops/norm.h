// Normalization of each row: RMSNorm and LayerNorm.
//
//   RMSNorm    scale = √(mean x² + eps)                       y = x / scale · (weight_offset + w)
//   LayerNorm  scale = √(mean (x − mean x)² + eps)            y = (x − mean x) / scale · (weight_offset + w) + b
//
// A norm without a weight ends at the division: y is what it divides.
//
// With a tape, or if a tap wants the divisor or the divided rows, a norm is three ops (divisor, division, weight), so
// that each site has a value and a gradient. Otherwise it is one op, with a bit-identical result.
//
// x, y [T, d] or [T, n, d] (each of the n vectors separately); w, b [d], or [n · d] with a weight for each of the n;
// all in float32. weight_offset is 1 if the checkpoint stores w − 1. Sources: Zhang & Sennrich 2019 (RMSNorm); Ba,
// Kiros & Hinton 2016 (LayerNorm).
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/fields.h"
#include "pass/pass.h"

namespace vitrine {

struct NormConfig {
  enum class Kind : std::uint8_t { rms, layer };

  Kind kind = Kind::rms;
  float eps = 1e-5f;
  float weight_offset = 0.0f;
  bool bias = false;
  bool weight = true;  ///< False: neither a weight nor a bias.

  bool operator==(const NormConfig&) const = default;
};

constexpr std::array<std::string_view, 2> words(NormConfig::Kind) { return {"rms", "layer"}; }
template <ConfigOf<NormConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"kind", "the formula of all norms"}, c.kind);
  visit(Field{"eps", "added to the mean square, or to the variance"}, c.eps);
  visit(Field{"weight_offset", "rows are multiplied by this plus the weight"}, c.weight_offset);
  visit(Field{"bias", "added to the result"}, c.bias);
  visit(Field{"weight", "without a weight a norm only divides"}, c.weight);
}

struct NormParams {
  Param weight;  ///< Absent if the config has none.
  Param bias;
};

/// x with its last dimension normalized; the divisors are `[T, 1]` or `[T, n, 1]`. The sites are the divisor, the
/// divided rows and the result.
Tensor norm(Pass& p, const NormSite& at, const NormConfig& c, const NormParams& w, const Tensor& x);
/// A norm whose result has no site.
Tensor norm(Pass& p, const SiteId& scale, const SiteId& normalized, const NormConfig& c, const NormParams& w,
            const Tensor& x);
/// A norm whose steps have no sites.
Tensor plain_norm(Pass& p, const NormConfig& c, const NormParams& w, const Tensor& x);
/// An absent norm is the identity.
inline Tensor norm(Pass& p, const NormSite& at, const std::optional<NormConfig>& c, const NormParams& w,
                   const Tensor& x) {
  return c ? norm(p, at, *c, w, x) : x;
}

}  // namespace vitrine
