#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "example/spell.h"

namespace vitrine {
namespace {

std::string layer_name(int layer) { return "blocks." + std::to_string(layer) + "."; }

/// Σ_o dy[row, o] · W[o, column]: the gradient of a product's input.
Arithmetic back_through(const Facts& f, const std::string& dy, std::int64_t row, const std::string& weight,
                        std::int64_t column) {
  const Seen& w = f.params.at(weight);
  return dot(f.gradients.at(dy), row * w.shape[0], 1, w, column, w.shape[1], w.shape[0]);
}

/// (dn − mean dn − n · mean(dn · n)) / σ: the gradient of a norm's input; RMSNorm does not subtract the mean of dn.
Arithmetic back_through_norm(const Facts& f, const NormConfig& c, const std::string& norm, std::int64_t flat) {
  const Seen &n = f.values.at(norm + "hook_normalized"), &dn = f.gradients.at(norm + "hook_normalized");
  const std::int64_t d = n.last_size(), row = flat / d;
  double mean = 0, mean_product = 0;
  for (std::int64_t i = row * d; i < (row + 1) * d; ++i) {
    mean += static_cast<double>(dn[i]) / static_cast<double>(d);
    mean_product += static_cast<double>(dn[i]) * static_cast<double>(n[i]) / static_cast<double>(d);
  }
  Arithmetic inner(dn[flat]);
  if (c.kind == NormConfig::Kind::layer) inner = inner - Arithmetic(mean);
  inner = inner - Arithmetic(n[flat]) * Arithmetic(mean_product);
  return inner / Arithmetic(f.values.at(norm + "hook_scale")[row]);
}

std::optional<Arithmetic> spell_stream(const Facts& f, const SiteId& id, std::int64_t flat) {
  const BlockConfig& block = f.block(id.layer);
  const bool is_serial = block.residual == BlockConfig::Residual::serial;
  const auto direct = [&](Site site) { return Arithmetic(f.gradients.at(sibling(id, site))[flat]); };
  switch (id.site) {
    case Site::resid_post:
      if (id.layer + 1 < static_cast<int>(f.config->blocks.size())) return std::nullopt;
      return back_through_norm(f, f.config->final_norm, "ln_final.", flat);
    case Site::resid_mid:
      if (!block.norms.ffn_pre) return std::nullopt;
      return direct(Site::resid_post) + back_through_norm(f, *block.norms.ffn_pre, layer_name(id.layer) + "ln2.", flat);
    case Site::resid_pre:
      if (!is_serial || !block.norms.attn_pre) return std::nullopt;
      return direct(Site::resid_mid) + back_through_norm(f, *block.norms.attn_pre, layer_name(id.layer) + "ln1.", flat);
    default:
      return std::nullopt;
  }
}

std::optional<Arithmetic> spell_attention(const Facts& f, const SiteId& id, std::int64_t flat) {
  const AttentionConfig& a = f.block(id.layer).attention();
  const std::int64_t dh = a.head_dim, T = f.n_tokens(), H = a.n_heads, K = a.n_kv_heads, group = H / K;
  const auto value = [&](Site site) -> const Seen& { return f.values.at(sibling(id, site)); };
  const auto gradient = [&](Site site) -> const Seen& { return f.gradients.at(sibling(id, site)); };
  // Indices [t, head, e] of q and z, and of k and v.
  const std::int64_t t = flat / (H * dh), h = flat / dh % H;
  const std::int64_t s = flat / (K * dh), g = flat / dh % K, e = flat % dh;
  const bool scores_read_this = name_of(id) == scored_query(f, id.layer) || name_of(id) == scored_key(f, id.layer);
  switch (id.site) {
    case Site::z:
      return back_through(f, sibling(id, Site::attn_proj), t, layer_name(id.layer) + "attn.wo.weight", flat % (H * dh));
    case Site::pattern: {
      const std::int64_t head = flat / (T * T);
      return dot(gradient(Site::z), (flat / T % T * H + head) * dh, 1, value(Site::v),
                 (flat % T * K + head / group) * dh, 1, dh);
    }
    case Site::scores: {
      const Seen& p = value(Site::pattern);
      const std::int64_t first = flat / T * T;
      return Arithmetic(p[flat]) *
             (Arithmetic(gradient(Site::pattern)[flat]) - dot(p, first, 1, gradient(Site::pattern), first, 1, T));
    }
    case Site::q:
    case Site::rot_q:
      if (!scores_read_this) return std::nullopt;
      return Arithmetic(a.score_scale) * dot(gradient(Site::scores_raw), (h * T + t) * T, 1,
                                             f.values.at(scored_key(f, id.layer)), h / group * dh + e, K * dh, T);
    case Site::k:
    case Site::rot_k: {
      if (!scores_read_this) return std::nullopt;
      std::vector<Arithmetic> heads;
      for (std::int64_t head = g * group; head < (g + 1) * group; ++head) {
        heads.push_back(dot(gradient(Site::scores_raw), head * T * T + s, T, f.values.at(scored_query(f, id.layer)),
                            head * dh + e, H * dh, T));
      }
      return Arithmetic(a.score_scale) * sum_of(heads);
    }
    case Site::v: {
      std::vector<Arithmetic> heads;
      for (std::int64_t head = g * group; head < (g + 1) * group; ++head) {
        heads.push_back(dot(value(Site::pattern), head * T * T + s, T, gradient(Site::z), head * dh + e, H * dh, T));
      }
      return sum_of(heads);
    }
    default:
      return std::nullopt;
  }
}

/// The gradient of a norm's output, from the products that read it.
std::optional<Arithmetic> spell_norm_out(const Facts& f, const SiteId& id, std::int64_t flat) {
  const BlockConfig& block = f.block(id.layer);
  const std::int64_t d = f.config->d_model, row = flat / d, column = flat % d;
  const std::string at = layer_name(id.layer);
  if (id.site == Site::ln1_out) {
    if (block.norms.ffn_reads_attn_pre) return std::nullopt;
    return back_through(f, at + "attn.hook_q", row, at + "attn.wq.weight", column) +
           back_through(f, at + "attn.hook_k", row, at + "attn.wk.weight", column) +
           back_through(f, at + "attn.hook_v", row, at + "attn.wv.weight", column);
  }
  if (id.site != Site::ln2_out || std::holds_alternative<MoeConfig>(block.ffn)) return std::nullopt;
  const bool gated = std::get<DenseConfig>(block.ffn).gated;
  if (!gated) return back_through(f, at + "mlp.hook_pre", row, at + "mlp.w_up.weight", column);
  return back_through(f, at + "mlp.hook_pre", row, at + "mlp.w_gate.weight", column) +
         back_through(f, at + "mlp.hook_pre_linear", row, at + "mlp.w_up.weight", column);
}

std::optional<Arithmetic> spell_ffn(const Facts& f, const SiteId& id, std::int64_t flat, std::int64_t width) {
  const auto* dense = std::get_if<DenseConfig>(&f.block(id.layer).ffn);
  if (dense == nullptr) return std::nullopt;
  if (id.site == Site::mlp_post) {
    return back_through(f, sibling(id, Site::mlp_proj), flat / width, layer_name(id.layer) + "mlp.w_down.weight",
                        flat % width);
  }
  if (id.site != Site::mlp_pre || dense->gated || dense->activation != Activation::relu) return std::nullopt;
  const bool open = f.values.at(name_of(id))[flat] > 0;
  return Arithmetic(f.gradients.at(sibling(id, Site::mlp_post))[flat]) *
         (open ? Arithmetic(1, "1") : Arithmetic(0, "0"));
}

/// The names of the sites of a product's output and input.
struct ProductEnds {
  std::string made, read;
};

std::optional<ProductEnds> ends_of(const Facts& f, const std::string& linear) {
  if (linear == "unembed") return ProductEnds{"unembed.hook_out", "unembed.hook_in"};
  const int layer = std::stoi(linear.substr(std::string("blocks.").size()));
  const std::string at = layer_name(layer), rest = linear.substr(at.size());
  if (rest == "attn.wq") return ProductEnds{at + "attn.hook_q", attention_input(f, layer)};
  if (rest == "attn.wk") return ProductEnds{at + "attn.hook_k", attention_input(f, layer)};
  if (rest == "attn.wv") return ProductEnds{at + "attn.hook_v", attention_input(f, layer)};
  if (rest == "attn.wo") return ProductEnds{at + "attn.hook_out", at + "attn.hook_z"};
  const auto* dense = std::get_if<DenseConfig>(&f.block(layer).ffn);
  if (dense == nullptr) return std::nullopt;
  if (rest == "mlp.w_gate") return ProductEnds{at + "mlp.hook_pre", ffn_input(f, layer)};
  if (rest == "mlp.w_up") {
    return ProductEnds{at + (dense->gated ? "mlp.hook_pre_linear" : "mlp.hook_pre"), ffn_input(f, layer)};
  }
  if (rest == "mlp.w_down") return ProductEnds{at + "mlp.hook_out", at + "mlp.hook_post"};
  return std::nullopt;
}

/// The gradients of all positions that read a token's row.
std::vector<Arithmetic> spell_input_side(const Facts& f, std::int64_t flat) {
  const std::int64_t d = f.config->d_model, token = flat / d;
  const float scale = f.config->embedding.scale;
  std::vector<Arithmetic> terms;
  for (std::int64_t t = 0; t < f.n_tokens(); ++t) {
    if (f.ids[static_cast<std::size_t>(t)] != token) continue;
    const Arithmetic dx(f.gradients.at("hook_embed")[t * d + flat % d]);
    terms.push_back(scale != 1 ? Arithmetic(scale) * dx : dx);
  }
  return terms;
}

/// (p − 1) · h or p · h for each row whose loss counts.
std::vector<Arithmetic> spell_head_side(const Facts& f, std::int64_t flat) {
  const std::int64_t d = f.config->d_model, n = f.config->vocab_size, token = flat / d;
  std::vector<Arithmetic> terms;
  for (std::int64_t t = 0; t < f.n_tokens(); ++t) {
    if (f.weights[static_cast<std::size_t>(t)] == 0) continue;
    terms.push_back(Arithmetic(f.gradients.at("unembed.hook_out")[t * n + token]) *
                    Arithmetic(f.values.at("unembed.hook_in")[t * d + flat % d]));
  }
  return terms;
}

std::optional<Arithmetic> spell_norm_param(const Facts& f, const std::string& param, std::int64_t flat) {
  const std::string norm = param.substr(0, param.rfind('.') + 1);
  const auto dy = f.gradients.find(norm + "hook_out");
  if (dy == f.gradients.end()) return std::nullopt;
  const Seen& n = f.values.at(norm + "hook_normalized");
  const std::int64_t d = n.last_size();
  std::vector<Arithmetic> terms;
  for (std::int64_t i = flat; i < static_cast<std::int64_t>(n.values.size()); i += d) {
    if (dy->second[i] == 0) continue;
    terms.push_back(param.ends_with(".bias") ? Arithmetic(dy->second[i])
                                             : Arithmetic(dy->second[i]) * Arithmetic(n[i]));
  }
  if (terms.empty()) return std::nullopt;
  return sum_of(terms);
}

Arithmetic spell_update(const Facts& f, const std::string& param, std::int64_t flat) {
  const OptimizerConfig& c = f.optimizer;
  const Seen& before = f.params.at(param);
  const Arithmetic p(before[flat]), g(f.param_gradients.at(param)[flat]), lr(f.lr, decimal(f.lr, 4));
  if (c.kind == OptimizerConfig::Kind::sgd) return p - lr * g;
  // m and v are 0 initially, so after one step m / (1 − β1) is the gradient and v / (1 − β2) its square.
  const Arithmetic step = lr * (g / (function("√", std::sqrt, squared(g)) + Arithmetic(c.eps, decimal(c.eps, 3))));
  const bool decays = before.shape.rank() >= 2 && c.weight_decay != 0;
  if (!decays) return p - step;
  return p * (Arithmetic(1, "1") - lr * Arithmetic(c.weight_decay)) - step;
}

}  // namespace

std::optional<Arithmetic> spell_gradient(const Facts& f, const Seen& gradient, std::int64_t flat) {
  const SiteId& id = gradient.site;
  const std::int64_t width = gradient.last_size(), row = flat / width, column = flat % width;
  switch (id.site) {
    case Site::logits: {
      if (f.weights[static_cast<std::size_t>(row)] == 0) return std::nullopt;
      const Arithmetic p(f.values.at("softmax")[flat]);
      return column == f.targets[static_cast<std::size_t>(row)] ? p - Arithmetic(1, "1") : p - Arithmetic(0, "0");
    }
    case Site::unembed_in:
      return back_through(f, "unembed.hook_out", row, f.config->head.tied ? "embed.weight" : "unembed.weight", column);
    case Site::resid_pre:
    case Site::resid_mid:
    case Site::resid_post:
      return spell_stream(f, id, flat);
    case Site::ln1_normalized:
    case Site::ln2_normalized:
    case Site::ln1_post_normalized:
    case Site::ln2_post_normalized:
    case Site::final_normalized: {
      const std::string norm = name_of(id).substr(0, name_of(id).rfind('.') + 1);
      const float offset = f.config->final_norm.weight_offset;
      const Arithmetic gain(f.params.at(norm + "weight")[column]);
      return Arithmetic(f.gradients.at(norm + "hook_out")[flat]) * (offset != 0 ? Arithmetic(1, "1") + gain : gain);
    }
    case Site::ln1_out:
    case Site::ln2_out:
      return spell_norm_out(f, id, flat);
    case Site::mlp_pre:
    case Site::mlp_post:
      return spell_ffn(f, id, flat, width);
    default:
      return id.layer >= 0 ? spell_attention(f, id, flat) : std::nullopt;
  }
}

std::optional<Arithmetic> spell_param_gradient(const Facts& f, const std::string& param, std::int64_t flat) {
  if (param == "pos_embed.weight") return std::nullopt;
  if (param == "embed.weight") {
    std::vector<Arithmetic> terms = spell_input_side(f, flat);
    if (f.config->head.tied) {
      for (const Arithmetic& term : spell_head_side(f, flat)) terms.push_back(term);
    }
    return terms.empty() ? std::nullopt : std::optional(sum_of(terms));
  }
  if (param.find("ln") != std::string::npos || param.find("_norm.") != std::string::npos) {
    return spell_norm_param(f, param, flat);
  }
  const auto ends = ends_of(f, param.substr(0, param.rfind('.')));
  if (!ends) return std::nullopt;
  const Seen& dy = f.gradients.at(ends->made);
  const Seen& shape_of = f.params.at(param);
  const std::int64_t out = shape_of.shape[0];
  if (param.ends_with(".bias")) {
    std::vector<Arithmetic> terms;
    for (std::int64_t t = 0; t < f.n_tokens(); ++t) {
      if (dy[t * out + flat] != 0) terms.emplace_back(dy[t * out + flat]);
    }
    return terms.empty() ? std::nullopt : std::optional(sum_of(terms));
  }
  const std::int64_t in = shape_of.shape[1];
  return dot(dy, flat / in, out, f.values.at(ends->read), flat % in, in, f.n_tokens());
}

std::optional<Arithmetic> spell(const Facts& f, const std::string& section, std::int64_t flat) {
  const std::size_t colon = section.find(':');
  const std::string kind = section.substr(0, colon == std::string::npos ? 0 : colon);
  const std::string name = section.substr(colon == std::string::npos ? 0 : colon + 1);
  if (kind.empty()) {
    if (name == "softmax") {
      Seen softmax = f.values.at(name);
      std::vector<Arithmetic> parts;
      const Seen& logits = f.values.at("hook_logits");
      const std::int64_t n = logits.last_size(), first = flat / n * n;
      for (std::int64_t i = first; i < first + n; ++i)
        parts.push_back(function("exp", std::exp, Arithmetic(logits[i])));
      return parts[static_cast<std::size_t>(flat - first)] / sum_of(parts);
    }
    const auto value = f.values.find(name);
    return value == f.values.end() ? std::nullopt : spell_value(f, value->second, flat);
  }
  if (kind == "input") {
    const auto terms = spell_input_side(f, flat);
    return terms.size() < 2 ? std::nullopt : std::optional(sum_of(terms));
  }
  if (kind == "head") return sum_of(spell_head_side(f, flat));
  if (kind == "new") return spell_update(f, name, flat);
  if (f.param_gradients.contains(name)) return spell_param_gradient(f, name, flat);
  return spell_gradient(f, f.gradients.at(name), flat);
}

}  // namespace vitrine
