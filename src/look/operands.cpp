#include "look/operands.h"

#include <utility>

namespace vitrine {
namespace {

using Elements = std::vector<OperandElements>;

OperandElements of_input(std::size_t k, std::int64_t first, std::int64_t n = 1, std::int64_t step = 1) {
  return {k, "", first, step, n};
}
OperandElements of_param(const std::string& param, std::int64_t first, std::int64_t n = 1) {
  return {std::nullopt, param, first, 1, n};
}

std::string bias_name(const OpView& v) { return v.op.param.substr(0, v.op.param.rfind('.')) + ".bias"; }

Elements of_embed(const OpView& v, std::int64_t i) {
  const std::int64_t d = v.output().last_size(), id = v.facts.ids[static_cast<std::size_t>(i / d)];
  return {of_param(v.op.param, id * d + i % d)};
}

Elements of_linear(const OpView& v, std::int64_t i) {
  const Seen& w = v.facts.params.at(v.op.param);
  const std::int64_t n = w.shape[1], row = i / w.shape[0], out = i % w.shape[0];
  Elements elements = {of_input(0, row * n, n), of_param(v.op.param, out * n, n)};
  if (v.facts.bias_of(v.op) != nullptr) elements.push_back(of_param(bias_name(v), out));
  return elements;
}

Elements of_norm_scale(const OpView& v, std::int64_t row) {
  const std::int64_t d = v.input(0).count() / v.output().count();
  return {of_input(0, row * d, d)};
}

Elements of_norm_divide(const OpView& v, std::int64_t i) {
  return {of_input(0, i), of_input(1, i / (v.input(0).count() / v.input(1).count()))};
}

Elements of_norm_weight(const OpView& v, std::int64_t i) {
  const std::int64_t n = v.facts.params.at(v.op.param).count();
  Elements elements = {of_input(0, i), of_param(v.op.param, i % n)};
  if (v.facts.bias_of(v.op) != nullptr) elements.push_back(of_param(bias_name(v), i % n));
  return elements;
}

Elements of_rope(const OpView& v, std::int64_t i) {
  const RopeConfig& c = *v.attention().rope;
  const std::int64_t e = i % v.attention().head_dim, half = c.dim / 2;
  if (e >= c.dim) return {of_input(0, i)};
  if (c.layout == RopeConfig::Layout::halves) return {of_input(0, i), of_input(0, e >= half ? i - half : i + half)};
  return {of_input(0, i), of_input(0, e % 2 == 1 ? i - 1 : i + 1)};
}

/// Element i of the strips [H, T, T]: a row of q [T, H, dh] and a row of k [T, K, dh].
Elements of_score(const OpView& v, std::int64_t i) {
  const AttentionConfig& a = v.attention();
  const std::int64_t n = v.facts.n_tokens(), h = i / (n * n), t = i / n % n, s = i % n;
  const std::int64_t g = h / (a.n_heads / a.n_kv_heads);
  return {of_input(0, (t * a.n_heads + h) * a.head_dim, a.head_dim),
          of_input(1, (s * a.n_kv_heads + g) * a.head_dim, a.head_dim)};
}

Elements of_softmax(const OpView& v, std::int64_t i) {
  const std::int64_t n = v.input(0).last_size();
  return {of_input(0, i / n * n, n)};
}

/// Element i of z [T, H, dh]: a row of the pattern [H, T, T] and a column of v [T, K, dh].
Elements of_mix(const OpView& v, std::int64_t i) {
  const AttentionConfig& a = v.attention();
  const std::int64_t n = v.facts.n_tokens(), dh = a.head_dim;
  const std::int64_t t = i / (a.n_heads * dh), h = i / dh % a.n_heads, e = i % dh;
  const std::int64_t g = h / (a.n_heads / a.n_kv_heads);
  return {of_input(0, (h * n + t) * n, n), of_input(1, g * dh + e, n, a.n_kv_heads * dh)};
}

Elements of_same(const OpView& v, std::int64_t i) {
  Elements elements;
  for (std::size_t k = 0; k < v.op.inputs.size(); ++k) elements.push_back(of_input(k, i));
  return elements;
}

}  // namespace

std::vector<OperandElements> operands_of(const OpView& v, std::int64_t i) {
  using Find = Elements (*)(const OpView&, std::int64_t);
  constexpr std::pair<std::string_view, Find> kOps[] = {
      {"embed", of_embed},
      {"linear", of_linear},
      {"norm_scale", of_norm_scale},
      {"norm_divide", of_norm_divide},
      {"norm_weight", of_norm_weight},
      {"activate", of_same},
      {"gated", of_same},
      {"rope", of_rope},
      {"attend_score", of_score},
      {"attend_mask", of_same},
      {"attend_softmax", of_softmax},
      {"attend_mix", of_mix},
      {"add", of_same},
      {"scale", of_same},
      {"softcap", of_same},
  };
  for (const auto& [name, find] : kOps) {
    if (v.op.kind == name) return find(v, i);
  }
  return {};
}

}  // namespace vitrine
