#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/math.h"
#include "look/figures.h"
#include "ops/rope.h"

namespace vitrine {
namespace {

constexpr double kTaughtFrequency = 0.24;  // radians per position: five positions turn by a quarter, so all are visible

const RopeConfig* rope_of(const ModelConfig& config, std::size_t layer) {
  const AttentionConfig* const attention = attention_of(config, layer);
  return attention != nullptr && attention->rope ? &*attention->rope : nullptr;
}

/// `[L, H, n]`: the mean length of each pair of the rotated queries; NaN where a layer has fewer.
void add_lengths(const Recording& r, std::int64_t max_pairs, LookData& data) {
  const ModelConfig& config = *r.facts.config;
  const std::size_t n_layers = config.n_layers();
  std::int64_t max_heads = 0;
  for (std::size_t l = 0; l < n_layers; ++l) {
    if (rope_of(config, l) != nullptr) max_heads = std::max(max_heads, attention_of(config, l)->n_heads);
  }
  std::vector<double> lengths(n_layers * static_cast<std::size_t>(max_heads * max_pairs), kNoValue);
  for (std::size_t l = 0; l < n_layers; ++l) {
    const RopeConfig* const rope = rope_of(config, l);
    const std::string site = in_block(static_cast<std::int64_t>(l), "attn.hook_rot_q");
    if (rope == nullptr || !r.has(site)) continue;
    const AttentionConfig& attention = *attention_of(config, l);
    const std::int64_t heads = attention.n_heads, dh = attention.head_dim, n = rope->dim / 2;
    const bool halves = rope->layout == RopeConfig::Layout::halves;
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto x = static_cast<std::size_t>(h * dh + (halves ? i : 2 * i));
        const auto y = x + static_cast<std::size_t>(halves ? n : 1);
        double sum = 0;
        for (std::int64_t t = 0; t < r.n_tokens(); ++t) {
          const std::span<const float> q = r.row(site, t);
          const auto a = static_cast<double>(q[x]), b = static_cast<double>(q[y]);
          sum += std::sqrt(a * a + b * b);
        }
        const std::int64_t at = (static_cast<std::int64_t>(l) * max_heads + h) * max_pairs + i;
        lengths[static_cast<std::size_t>(at)] = sum / static_cast<double>(r.n_tokens());
      }
    }
  }
  data.add("rope", "rope.q_length", {static_cast<std::int64_t>(n_layers), max_heads, max_pairs}, lengths);
}

}  // namespace

void add_rope_values(const Recording& r, LookData& data) {
  std::vector<const RopeConfig*> kinds;
  std::int64_t n = 0;
  for (std::size_t l = 0; l < r.facts.config->n_layers(); ++l) {
    const RopeConfig* const rope = rope_of(*r.facts.config, l);
    const auto is_same = [&](const RopeConfig* other) { return *other == *rope; };
    if (rope == nullptr || std::any_of(kinds.begin(), kinds.end(), is_same)) continue;
    kinds.push_back(rope);
    n = std::max(n, rope->dim / 2);
  }
  if (kinds.empty()) return;
  std::vector<double> frequencies, wavelengths;
  for (const RopeConfig* rope : kinds) {
    const std::vector<float> own = rope_frequency(rope->theta, rope->dim, rope->scaling, r.n_tokens());
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      frequencies.push_back(i < own.size() ? static_cast<double>(own[i]) : kNoValue);
      wavelengths.push_back(2 * std::numbers::pi / frequencies.back());
    }
  }
  const auto n_kinds = static_cast<std::int64_t>(kinds.size());
  data.add("rope", "rope.frequency", {n_kinds, n}, frequencies);
  data.add("rope", "rope.wavelength", {n_kinds, n}, wavelengths);
  std::size_t taught = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const auto distance = [&](std::size_t k) { return std::abs(frequencies[k] - kTaughtFrequency); };
    if (distance(i) < distance(taught)) taught = i;
  }
  std::vector<double> pairs;
  for (const std::size_t pair : {std::size_t{0}, taught}) {
    for (int t = 0; t < 5; ++t) {
      pairs.push_back(math::cos(t * frequencies[pair]));
      pairs.push_back(math::sin(t * frequencies[pair]));
    }
  }
  data.add("rope", "rope.pair", {2, 5, 2}, pairs);
  add_lengths(r, n, data);
}

}  // namespace vitrine
