#include <algorithm>
#include <cmath>

#include "example/spell.h"
#include "ops/rope.h"

namespace vitrine {
namespace {

Arithmetic exponential(const Arithmetic& x) { return function("exp", std::exp, x); }

std::string layer_name(int layer) { return "blocks." + std::to_string(layer) + "."; }

/// The name of the site that a norm reads.
std::string norm_input(const Facts& f, Norm norm, int layer) {
  const auto at = [&](Site site) { return name_of({site, layer}); };
  switch (norm) {
    case Norm::ln1:
      return at(Site::resid_pre);
    case Norm::q:
      return at(Site::q);
    case Norm::k:
      return at(Site::k);
    case Norm::ln1_post:
      return at(Site::attn_proj);
    case Norm::ln2:
      return at(f.block(layer).residual == BlockConfig::Residual::parallel ? Site::resid_pre : Site::resid_mid);
    case Norm::ln2_post:
      return at(Site::mlp_proj);
    case Norm::final:
      break;
  }
  return name_of({Site::resid_post, static_cast<int>(f.config->blocks.size()) - 1});
}

const NormConfig& norm_config(const Facts& f, Norm norm, int layer) {
  switch (norm) {
    case Norm::ln1:
      return *f.block(layer).norms.attn_pre;
    case Norm::q:
    case Norm::k:
      return f.block(layer).attention().qk_norm->norm;
    case Norm::ln1_post:
      return *f.block(layer).norms.attn_post;
    case Norm::ln2:
      return *f.block(layer).norms.ffn_pre;
    case Norm::ln2_post:
      return *f.block(layer).norms.ffn_post;
    case Norm::final:
      break;
  }
  return f.config->final_norm;
}

/// The prefix of a norm's parameters and sites: `blocks.0.ln1.`, `ln_final.`.
std::string norm_prefix(const std::string& site) { return site.substr(0, site.rfind('.') + 1); }

Arithmetic spell_norm_scale(const NormConfig& c, const Seen& x, const Seen& value, std::int64_t flat) {
  const std::int64_t d = static_cast<std::int64_t>(x.values.size()) / value.shape.count();
  double mean = 0;
  for (std::int64_t i = 0; i < d; ++i) mean += static_cast<double>(x[flat * d + i]) / static_cast<double>(d);
  std::vector<Arithmetic> squares;
  for (std::int64_t i = 0; i < d; ++i) {
    const Arithmetic own(x[flat * d + i]);
    squares.push_back(squared(c.kind == NormConfig::Kind::layer ? own - Arithmetic(mean) : own));
  }
  const Arithmetic sum = sum_of(squares);
  const Arithmetic eps(static_cast<double>(c.eps), decimal(static_cast<double>(c.eps), 3));
  return function("√", std::sqrt, sum / Arithmetic(static_cast<double>(d), std::to_string(d)) + eps);
}

Arithmetic spell_normalized(const Facts& f, const NormConfig& c, const Seen& x, const Seen& value, std::int64_t flat) {
  const Seen& scale = f.values.at(norm_prefix(name_of(value.site)) + "hook_scale");
  const std::int64_t d = value.last_size(), row = flat / d;
  if (c.kind == NormConfig::Kind::rms) return Arithmetic(x[flat]) / Arithmetic(scale[row]);
  double mean = 0;
  for (std::int64_t i = 0; i < d; ++i) mean += static_cast<double>(x[row * d + i]) / static_cast<double>(d);
  return (Arithmetic(x[flat]) - Arithmetic(mean)) / Arithmetic(scale[row]);
}

Arithmetic spell_norm_out(const Facts& f, const NormConfig& c, const Seen& value, std::int64_t flat) {
  const std::string prefix = norm_prefix(name_of(value.site));
  const Arithmetic normalized(f.values.at(prefix + "hook_normalized")[flat]);
  const Seen& weight = f.params.at(prefix + "weight");
  const std::int64_t column = flat % weight.shape.count();  // of a row, or of the heads that have a weight each
  const Arithmetic gain(weight[column]);
  const Arithmetic product =
      normalized *
      (c.weight_offset != 0
           ? Arithmetic(static_cast<double>(c.weight_offset), decimal(static_cast<double>(c.weight_offset), 0)) + gain
           : gain);
  return c.bias ? product + Arithmetic(f.params.at(prefix + "bias")[column]) : product;
}

Arithmetic spell_norm(const Facts& f, NormValue which, const Seen& value, std::int64_t flat) {
  const NormConfig& c = norm_config(f, which.norm, value.site.layer);
  const Seen& x = f.values.at(norm_input(f, which.norm, value.site.layer));
  switch (which.part) {
    case NormPart::scale:
      return spell_norm_scale(c, x, value, flat);
    case NormPart::normalized:
      return spell_normalized(f, c, x, value, flat);
    case NormPart::out:
      break;
  }
  return spell_norm_out(f, c, value, flat);
}

/// Row `row` of x times row `out` of a weight, plus its bias.
Arithmetic spell_product(const Facts& f, const Seen& x, std::int64_t row, const std::string& linear, std::int64_t out) {
  const Seen& w = f.params.at(linear + ".weight");
  const std::int64_t n = w.shape[1];
  const Arithmetic product = dot(x, row * n, 1, w, out * n, 1, n);
  const auto bias = f.params.find(linear + ".bias");
  return bias == f.params.end() ? product : product + Arithmetic(bias->second[out]);
}

std::optional<Arithmetic> spell_rope(const Facts& f, const Seen& value, std::int64_t flat) {
  const AttentionConfig& a = f.block(value.site.layer).attention();
  const RopeConfig& c = *a.rope;
  const bool is_query = value.site.site == Site::rot_q;
  const std::string normed = sibling(value.site, is_query ? Site::q_norm_out : Site::k_norm_out);
  const Seen& x = f.values.at(a.qk_norm ? normed : sibling(value.site, is_query ? Site::q : Site::k));
  const std::int64_t e = flat % a.head_dim, t = flat / value.shape[1] / a.head_dim, half = c.dim / 2;
  if (e >= c.dim) return std::nullopt;
  const bool halves = c.layout == RopeConfig::Layout::halves;
  const std::int64_t pair = halves ? e % half : e / 2;
  const bool is_second = halves ? e >= half : e % 2 == 1;
  const std::int64_t partner = flat + (is_second ? -1 : 1) * (halves ? half : 1);
  const std::vector<float> frequency = rope_frequency(c.theta, c.dim, c.scaling, f.n_tokens());
  const Arithmetic angle(static_cast<double>(t) * static_cast<double>(frequency[static_cast<std::size_t>(pair)]));
  const Arithmetic cosine = function("cos", std::cos, angle), sine = function("sin", std::sin, angle);
  const Arithmetic rotated = is_second ? Arithmetic(x[flat]) * cosine + Arithmetic(x[partner]) * sine
                                       : Arithmetic(x[flat]) * cosine - Arithmetic(x[partner]) * sine;
  return c.magnitude != 1 ? rotated * Arithmetic(c.magnitude) : rotated;
}

/// exp(x) divided by the sum of the exponentials of its row.
std::optional<Arithmetic> spell_softmax(const Seen& x, std::int64_t flat) {
  constexpr float kSafe = 20;  // above, the maximum is subtracted, as in the op
  const std::int64_t n = x.last_size(), first = flat / n * n;
  if (std::isinf(x[flat])) return std::nullopt;
  const float largest = *std::max_element(x.values.begin() + first, x.values.begin() + first + n);
  const auto part = [&](std::int64_t i) {
    return exponential(std::abs(largest) > kSafe ? Arithmetic(x[i]) - Arithmetic(largest) : Arithmetic(x[i]));
  };
  std::vector<Arithmetic> parts;
  for (std::int64_t i = first; i < first + n; ++i) {
    if (!std::isinf(x[i])) parts.push_back(part(i));
  }
  return part(flat) / sum_of(parts);
}

std::optional<Arithmetic> spell_attention(const Facts& f, const Seen& value, std::int64_t flat) {
  const SiteId& id = value.site;
  const AttentionConfig& a = f.block(id.layer).attention();
  const std::int64_t dh = a.head_dim, T = f.n_tokens(), group = a.n_heads / a.n_kv_heads;
  const auto project = [&](const char* linear) {
    const std::int64_t width = value.shape[1] * dh;
    return spell_product(f, f.values.at(attention_input(f, id.layer)), flat / width, layer_name(id.layer) + linear,
                         flat % width);
  };
  switch (id.site) {
    case Site::q:
      return project("attn.wq");
    case Site::k:
      return project("attn.wk");
    case Site::v:
      return project("attn.wv");
    case Site::rot_q:
    case Site::rot_k:
      return spell_rope(f, value, flat);
    case Site::scores_raw: {
      const std::int64_t h = flat / (T * T), t = flat / T % T, s = flat % T;
      const Arithmetic product = dot(f.values.at(scored_query(f, id.layer)), (t * a.n_heads + h) * dh, 1,
                                     f.values.at(scored_key(f, id.layer)), (s * a.n_kv_heads + h / group) * dh, 1, dh);
      return product * Arithmetic(a.score_scale);
    }
    case Site::scores: {
      if (!a.softcap || std::isinf(value[flat])) return std::nullopt;
      const Arithmetic cap(*a.softcap), raw(f.values.at(sibling(id, Site::scores_raw))[flat]);
      return cap * function("tanh", std::tanh, raw / cap);
    }
    case Site::pattern:
      return spell_softmax(f.values.at(sibling(id, Site::scores)), flat);
    case Site::z: {
      const std::int64_t t = flat / (a.n_heads * dh), h = flat / dh % a.n_heads, e = flat % dh;
      return dot(f.values.at(sibling(id, Site::pattern)), (h * T + t) * T, 1, f.values.at(sibling(id, Site::v)),
                 h / group * dh + e, a.n_kv_heads * dh, T);
    }
    default:
      return spell_product(f, f.values.at(sibling(id, Site::z)), flat / value.last_size(),
                           layer_name(id.layer) + "attn.wo", flat % value.last_size());
  }
}

Arithmetic spell_activation(Activation activation, const Arithmetic& z) {
  const Arithmetic one(1, "1"), half(0.5, "0.5");
  switch (activation) {
    case Activation::relu:
      return larger(Arithmetic(0, "0"), z);
    case Activation::silu:
      return z / (one + exponential(Arithmetic(0, "0") - z));
    case Activation::gelu_erf:
      return half * z * (one + function("erf", std::erf, z / function("√", std::sqrt, Arithmetic(2, "2"))));
    case Activation::gelu_tanh:
      break;
  }
  const Arithmetic inner =
      Arithmetic(std::sqrt(2 / 3.14159265358979323846)) * (z + Arithmetic(0.044715, "0.044715") * squared(z) * z);
  return half * z * (one + function("tanh", std::tanh, inner));
}

/// The prefix of the sublayer's parameters: `blocks.0.mlp`, `blocks.0.mlp.experts.3` or `blocks.0.mlp.shared`.
std::string ffn_prefix(const SiteId& id) {
  const std::string prefix = layer_name(id.layer) + "mlp";
  if (id.expert == SiteId::kNoExpert) return prefix;
  return prefix + (id.expert == SiteId::kShared ? ".shared" : ".experts." + std::to_string(id.expert));
}

/// The sum of the outputs of the chosen experts, weighted by their shares.
std::optional<Arithmetic> spell_mixture(const Facts& f, const MoeConfig& c, const SiteId& id, std::int64_t flat) {
  if (c.shared) return std::nullopt;
  const std::int64_t d = f.config->d_model, t = flat / d;
  const Seen &weights = f.values.at(sibling(id, Site::expert_weights)),
             &chosen = f.values.at(sibling(id, Site::expert_indices));
  std::vector<Arithmetic> shares, parts;
  for (std::int64_t r = 0; r < c.top_k; ++r) {
    shares.emplace_back(weights[t * c.n_experts + static_cast<std::int64_t>(chosen[t * c.top_k + r])]);
  }
  for (std::int64_t r = 0; r < c.top_k; ++r) {
    const auto expert = static_cast<int>(chosen[t * c.top_k + r]);
    const BlockSite at{id.layer};
    const Seen& tokens = f.values.at(name_of(at.of_expert(Site::expert_tokens, expert)));
    const auto row =
        std::find(tokens.values.begin(), tokens.values.end(), static_cast<float>(t)) - tokens.values.begin();
    const Arithmetic made(f.values.at(name_of(at.of_expert(Site::expert_out, expert)))[row * d + flat % d]);
    const Arithmetic& share = shares[static_cast<std::size_t>(r)];
    parts.push_back((c.renormalize ? share / sum_of(shares) : share) * made);
  }
  return sum_of(parts);
}

std::optional<Arithmetic> spell_ffn(const Facts& f, const Seen& value, std::int64_t flat) {
  const SiteId& id = value.site;
  const std::int64_t width = value.last_size(), column = flat % width;
  std::int64_t row = flat / width;
  const bool in_expert = id.expert != SiteId::kNoExpert;
  const auto* moe = std::get_if<MoeConfig>(&f.block(id.layer).ffn);
  const DenseConfig& c = moe == nullptr ? std::get<DenseConfig>(f.block(id.layer).ffn) : moe->expert;
  const auto read = [&](const char* linear) {
    if (in_expert && id.expert != SiteId::kShared) {
      row = static_cast<std::int64_t>(f.values.at(sibling(id, Site::expert_tokens))[row]);
    }
    return spell_product(f, f.values.at(ffn_input(f, id.layer)), row, ffn_prefix(id) + linear, column);
  };
  switch (id.site) {
    case Site::mlp_pre:
      return read(c.gated ? ".w_gate" : ".w_up");
    case Site::mlp_pre_linear:
    case Site::expert_pre:
      return read(".w_up");
    case Site::expert_gate:
      return read(".w_gate");
    case Site::mlp_post:
    case Site::expert_post: {
      const Site gate = in_expert ? (c.gated ? Site::expert_gate : Site::expert_pre) : Site::mlp_pre;
      const Arithmetic active = spell_activation(c.activation, Arithmetic(f.values.at(sibling(id, gate))[flat]));
      if (!c.gated) return active;
      return active * Arithmetic(f.values.at(sibling(id, in_expert ? Site::expert_pre : Site::mlp_pre_linear))[flat]);
    }
    case Site::router_logits:
      return read(".router");
    case Site::expert_weights:
      return spell_softmax(f.values.at(sibling(id, Site::router_logits)), flat);
    case Site::mlp_proj:
      if (moe != nullptr) return spell_mixture(f, *moe, id, flat);
      return spell_product(f, f.values.at(sibling(id, Site::mlp_post)), row, ffn_prefix(id) + ".w_down", column);
    case Site::expert_out:
      return spell_product(f, f.values.at(sibling(id, Site::expert_post)), row, ffn_prefix(id) + ".w_down", column);
    default:
      return std::nullopt;
  }
}

std::optional<Arithmetic> spell_stream(const Facts& f, const Seen& value, std::int64_t flat) {
  const SiteId& id = value.site;
  const auto at = [&](const std::string& name) { return Arithmetic(f.values.at(name)[flat]); };
  const BlockConfig& block = f.block(id.layer);
  switch (id.site) {
    case Site::resid_pre:
      if (id.layer > 0 || !f.config->embedding.learned_positions) return std::nullopt;
      return at("hook_embed") + at("hook_pos_embed");
    case Site::attn_out:
    case Site::mlp_out: {
      if (block.residual_scale == 1) return std::nullopt;
      const bool is_attention = id.site == Site::attn_out;
      const bool normed = (is_attention ? block.norms.attn_post : block.norms.ffn_post).has_value();
      const Site from = is_attention ? (normed ? Site::ln1_post_out : Site::attn_proj)
                                     : (normed ? Site::ln2_post_out : Site::mlp_proj);
      return Arithmetic(block.residual_scale) * at(sibling(id, from));
    }
    case Site::resid_mid:
      return at(sibling(id, Site::resid_pre)) + at(sibling(id, Site::attn_out));
    default:
      break;
  }
  if (block.residual == BlockConfig::Residual::serial)
    return at(sibling(id, Site::resid_mid)) + at(sibling(id, Site::mlp_out));
  return at(sibling(id, Site::resid_pre)) + at(sibling(id, Site::attn_out)) + at(sibling(id, Site::mlp_out));
}

std::optional<Arithmetic> spell_ends(const Facts& f, const Seen& value, std::int64_t flat) {
  const HeadConfig& c = f.config->head;
  const std::int64_t n = f.config->vocab_size;
  switch (value.site.site) {
    case Site::embed: {
      const std::int64_t d = f.config->d_model, token = f.ids[static_cast<std::size_t>(flat / d)];
      if (f.config->embedding.scale == 1) return std::nullopt;
      return Arithmetic(f.config->embedding.scale) * Arithmetic(f.params.at("embed.weight")[token * d + flat % d]);
    }
    case Site::unembed_out: {
      const std::int64_t d = f.config->d_model;
      const Arithmetic product = dot(f.values.at("unembed.hook_in"), flat / n * d, 1,
                                     f.params.at(c.tied ? "embed.weight" : "unembed.weight"), flat % n * d, 1, d);
      return c.bias ? product + Arithmetic(f.params.at("unembed.bias")[flat % n]) : product;
    }
    case Site::logits: {
      if (c.scale == 1 && !c.softcap) return std::nullopt;
      const Arithmetic raw(f.values.at("unembed.hook_out")[flat]);
      const Arithmetic scaled = c.scale != 1 ? Arithmetic(c.scale) * raw : raw;
      if (!c.softcap) return scaled;
      return Arithmetic(*c.softcap) * function("tanh", std::tanh, scaled / Arithmetic(*c.softcap));
    }
    case Site::loss: {
      const float p = f.values.at("softmax")[flat * n + f.targets[static_cast<std::size_t>(flat)]];
      return Arithmetic(0, "0") - function("ln", std::log, Arithmetic(p));
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string sibling(const SiteId& id, Site site) {
  const SiteInfo& of = info(site);
  return name_of({site, of.in_block ? id.layer : -1, -1, of.in_expert() ? id.expert : SiteId::kNoExpert});
}

std::string attention_input(const Facts& f, int layer) {
  return name_of({f.block(layer).norms.attn_pre ? Site::ln1_out : Site::resid_pre, layer});
}

std::string ffn_input(const Facts& f, int layer) {
  const BlockConfig& block = f.block(layer);
  if (block.norms.ffn_reads_attn_pre) return attention_input(f, layer);
  if (block.norms.ffn_pre) return name_of({Site::ln2_out, layer});
  return name_of({block.residual == BlockConfig::Residual::parallel ? Site::resid_pre : Site::resid_mid, layer});
}

std::string scored_query(const Facts& f, int layer) {
  const AttentionConfig& a = f.block(layer).attention();
  return name_of({a.rope ? Site::rot_q : a.qk_norm ? Site::q_norm_out : Site::q, layer});
}

std::string scored_key(const Facts& f, int layer) {
  const AttentionConfig& a = f.block(layer).attention();
  return name_of({a.rope ? Site::rot_k : a.qk_norm ? Site::k_norm_out : Site::k, layer});
}

Arithmetic dot(const Seen& x, std::int64_t x_first, std::int64_t x_step, const Seen& w, std::int64_t w_first,
               std::int64_t w_step, std::int64_t n) {
  std::vector<Arithmetic> terms;
  for (std::int64_t i = 0; i < n; ++i) {
    const float factor = x[x_first + i * x_step];
    if (factor == 0 && (!terms.empty() || i + 1 < n)) continue;
    terms.push_back(Arithmetic(factor) * Arithmetic(w[w_first + i * w_step]));
  }
  return sum_of(terms);
}

std::optional<Arithmetic> spell_value(const Facts& f, const Seen& value, std::int64_t flat) {
  if (const auto norm = norm_value(value.site.site)) return spell_norm(f, *norm, value, flat);
  switch (group_of(value.site.site)) {
    case SiteGroup::stream:
      return spell_stream(f, value, flat);
    case SiteGroup::attention:
      return spell_attention(f, value, flat);
    case SiteGroup::ffn:
      return spell_ffn(f, value, flat);
    case SiteGroup::ends:
      break;
  }
  return spell_ends(f, value, flat);
}

}  // namespace vitrine
