#include "example/words.h"

#include <utility>

#include "example/facts.h"

namespace vitrine {
namespace {

constexpr const char* kNorm = "src/ops/norm.cpp";
constexpr const char* kLinear = "src/ops/linear.cpp";
constexpr const char* kAttend = "src/ops/attend.cpp";
constexpr const char* kElementwise = "src/ops/elementwise.cpp";
constexpr const char* kRoute = "src/ops/route.cpp";
constexpr const char* kEmbed = "src/ops/embed.cpp";
constexpr const char* kLoss = "src/ops/loss.cpp";
constexpr const char* kModel = "src/model/model.cpp";
constexpr const char* kBlock = "src/model/block.cpp";

bool is_layer(const ModelConfig& c) { return c.final_norm.kind == NormConfig::Kind::layer; }

SectionWords norm_words(const ModelConfig& c, NormPart part) {
  const std::string gain = c.final_norm.weight_offset != 0 ? "(1 + g_{i})" : "g_{i}";
  switch (part) {
    case NormPart::scale:
      return {
          is_layer(c) ? "σ_{t} = √(\"mean\"_{i} (x_{t,i} − μ_{t})^{2} + ε)" : "σ_{t} = √(\"mean\"_{i} x_{t,i}^{2} + ε)",
          kNorm};
    case NormPart::normalized:
      return {is_layer(c) ? "n_{t,i} = {x_{t,i} − μ_{t}}/{σ_{t}}" : "n_{t,i} = {x_{t,i}}/{σ_{t}}", kNorm};
    case NormPart::out:
      break;
  }
  return {"y_{t,i} = n_{t,i} · " + gain + (c.final_norm.bias ? " + b_{i}" : ""), kNorm};
}

std::string activation_words(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return "max(0, z_{t,i})";
    case Activation::silu:
      return "{z_{t,i}}/{1 + exp(−z_{t,i})}";
    case Activation::gelu_tanh:
    case Activation::gelu_erf:
      break;
  }
  return "\"GELU\"(z_{t,i})";
}

const DenseConfig& dense_of(const BlockConfig& block) {
  const auto* moe = std::get_if<MoeConfig>(&block.ffn);
  return moe != nullptr ? moe->expert : std::get<DenseConfig>(block.ffn);
}

SectionWords stream_words(const ModelConfig& c, const BlockConfig& block, const SiteId& id) {
  const bool is_parallel = block.residual == BlockConfig::Residual::parallel;
  switch (id.site) {
    case Site::resid_pre:
      if (id.layer == 0 && c.embedding.learned_positions) return {"x = \"embed\" + \"pos_embed\"", kModel};
      return {id.layer == 0 ? "x = \"embed\"" : "x = \"resid_post\" \"of the previous block\"", kModel};
    case Site::attn_out:
      return {block.residual_scale != 1 ? "\"attn_out\" = s · \"out\"" : "", kBlock};
    case Site::mlp_out:
      return {block.residual_scale != 1 ? "\"mlp_out\" = s · \"out\"" : "", kBlock};
    case Site::resid_mid:
      return {"x = \"resid_pre\" + \"attn_out\"", kBlock};
    default:
      return {is_parallel ? "x = \"resid_pre\" + \"attn_out\" + \"mlp_out\"" : "x = \"resid_mid\" + \"mlp_out\"",
              kBlock};
  }
}

SectionWords attention_words(const AttentionConfig& a, Site site) {
  const std::string bias = a.qkv_bias ? " + b_{o}" : "";
  switch (site) {
    case Site::q:
    case Site::k:
    case Site::v:
      return {(site == Site::q   ? "q"
               : site == Site::k ? "k"
                                 : "v") +
                  ("_{t,o} = Σ_{i} x_{t,i} · W_{o,i}" + bias),
              kLinear};
    case Site::rot_q:
    case Site::rot_k:
      return {"x' = x · cos θ − y · sin θ, y' = y · cos θ + x · sin θ, θ = t · f_{i}", "src/ops/rope.cpp"};
    case Site::scores_raw:
      return {"r_{h,t,s} = (q_{t,h} · k_{s,h}) · scale", kAttend};
    case Site::scores:
      return {a.softcap ? "s_{h,t,s} = c · tanh({r_{h,t,s}}/{c}), \"−∞ where\" s \"is masked\""
                        : "s_{h,t,s} = r_{h,t,s}, \"−∞ where\" s \"is masked\"",
              kAttend};
    case Site::pattern:
      return {"p_{h,t,s} = {exp(s_{h,t,s})}/{Σ_{u} exp(s_{h,t,u})}", kAttend};
    case Site::z:
      return {"z_{t,h} = Σ_{s} p_{h,t,s} · v_{s,h}", kAttend};
    default:
      return {std::string("y_{t,o} = Σ_{i} z_{t,i} · W_{o,i}") + (a.out_bias ? " + b_{o}" : ""), kLinear};
  }
}

SectionWords ffn_words(const BlockConfig& block, Site site) {
  const DenseConfig& c = dense_of(block);
  switch (site) {
    case Site::mlp_pre:
    case Site::mlp_pre_linear:
    case Site::expert_gate:
    case Site::expert_pre:
    case Site::router_logits:
      return {
          std::string("z_{t,o} = Σ_{i} x_{t,i} · W_{o,i}") + (c.bias && site != Site::router_logits ? " + b_{o}" : ""),
          kLinear};
    case Site::mlp_post:
    case Site::expert_post:
      return {"a_{t,i} = " + activation_words(c.activation) + (c.gated ? " · u_{t,i}" : ""), kElementwise};
    case Site::expert_weights:
      return {"w_{t,e} = {exp(z_{t,e})}/{Σ_{u} exp(z_{t,u})}", kRoute};
    case Site::expert_indices:
      return {"", kRoute};
    case Site::expert_tokens:
      return {"", "src/model/moe.cpp"};
    case Site::mlp_proj:
      if (std::holds_alternative<MoeConfig>(block.ffn))
        return {"y_{t} = Σ_{e} \"share\"_{t,e} · \"out\"_{e,t}", kRoute};
      [[fallthrough]];
    default:
      return {std::string("y_{t,o} = Σ_{i} a_{t,i} · W_{o,i}") + (c.bias ? " + b_{o}" : ""), kLinear};
  }
}

SectionWords end_words(const ModelConfig& c, Site site) {
  switch (site) {
    case Site::embed:
      return {c.embedding.scale != 1 ? "x_{t} = s · E_{id(t)}" : "x_{t} = E_{id(t)}", kEmbed};
    case Site::pos_embed:
      return {"x_{t} = P_{t}", kEmbed};
    case Site::unembed_out:
      return {std::string(c.head.tied ? "z_{t,v} = Σ_{i} h_{t,i} · E_{v,i}" : "z_{t,v} = Σ_{i} h_{t,i} · U_{v,i}") +
                  (c.head.bias ? " + b_{v}" : ""),
              kLinear};
    case Site::logits:
      if (c.head.softcap) return {"l_{t,v} = c · tanh({s · z_{t,v}}/{c})", kElementwise};
      return {c.head.scale != 1 ? "l_{t,v} = s · z_{t,v}" : "", kModel};
    case Site::loss:
      return {"L_{t} = −ln p_{t,\"next\"}", kLoss};
    default:
      return {"", kModel};
  }
}

SectionWords end_gradient_words(const ModelConfig& c, Site site) {
  switch (site) {
    case Site::logits:
      return {"dl_{t,v} = w_{t} · (p_{t,v} − [v = \"target\"])", kLoss};
    case Site::unembed_out:
      return {c.head.softcap      ? "dz = s · dl · (1 − ({l}/{c})^{2})"
              : c.head.scale != 1 ? "dz = s · dl"
                                  : "",
              kElementwise};
    case Site::unembed_in:
      return {c.head.tied ? "dh_{t,i} = Σ_{v} dz_{t,v} · E_{v,i}" : "dh_{t,i} = Σ_{v} dz_{t,v} · U_{v,i}", kLinear};
    case Site::loss:
      return {"dL_{t} = w_{t}", kModel};
    default:
      return {"", kModel};
  }
}

SectionWords stream_gradient_words(const ModelConfig& c, const BlockConfig& block, const SiteId& id) {
  const bool is_last = id.layer + 1 == static_cast<int>(c.blocks.size());
  const bool is_parallel = block.residual == BlockConfig::Residual::parallel;
  const std::string through = is_layer(c) ? "{1}/{σ} (dn_{i} − \"mean\" dn − n_{i} · \"mean\"(dn · n))"
                                          : "{1}/{σ} (dn_{i} − n_{i} · \"mean\"(dn · n))";
  if (id.site == Site::resid_post && is_last) return {"dx_{i} = " + through, kNorm};
  if (id.site == Site::resid_mid && block.norms.ffn_pre) return {"dx_{i} = d\"resid_post\"_{i} + " + through, kNorm};
  if (id.site == Site::resid_pre && !is_parallel && block.norms.attn_pre) {
    return {"dx_{i} = d\"resid_mid\"_{i} + " + through, kNorm};
  }
  return {"", kBlock};
}

SectionWords attention_gradient_words(const AttentionConfig& a, Site site) {
  const bool is_rotated = a.rope.has_value();
  switch (site) {
    case Site::attn_proj:
      return {"", kBlock};
    case Site::z:
      return {"dz_{t,i} = Σ_{o} dy_{t,o} · W_{o,i}", kLinear};
    case Site::pattern:
      return {"dp_{h,t,s} = dz_{t,h} · v_{s,h}", kAttend};
    case Site::scores:
      return {"ds_{h,t,s} = p_{h,t,s} · (dp_{h,t,s} − Σ_{u} p_{h,t,u} · dp_{h,t,u})", kAttend};
    case Site::scores_raw:
      return {a.softcap ? "dr = ds · (1 − ({s}/{c})^{2})" : "", kAttend};
    case Site::v:
      return {"dv_{s,h} = Σ_{t} p_{h,t,s} · dz_{t,h}", kAttend};
    case Site::rot_q:
    case Site::rot_k:
      break;
    case Site::q:
    case Site::k:
      if (is_rotated) return {"dx = dx' · cos θ + dy' · sin θ, dy = dy' · cos θ − dx' · sin θ", "src/ops/rope.cpp"};
      break;
    default:
      return {};
  }
  return {site == Site::q || site == Site::rot_q ? "dq_{t,h} = scale · Σ_{s} dr_{h,t,s} · k_{s,h}"
                                                 : "dk_{s,h} = scale · Σ_{t} dr_{h,t,s} · q_{t,h}",
          kAttend};
}

SectionWords norm_gradient_words(const ModelConfig& c, Site site, NormPart part) {
  switch (part) {
    case NormPart::scale:
      return {"dσ_{t} = −{1}/{σ_{t}} Σ_{i} dn_{t,i} · n_{t,i}", kNorm};
    case NormPart::normalized:
      return {std::string("dn_{t,i} = dy_{t,i} · ") + (c.final_norm.weight_offset != 0 ? "(1 + g_{i})" : "g_{i}"),
              kNorm};
    case NormPart::out:
      break;
  }
  if (site == Site::ln1_out)
    return {"dy_{t,i} = Σ_{o} (dq_{t,o} · Wq_{o,i} + dk_{t,o} · Wk_{o,i} + dv_{t,o} · Wv_{o,i})", kLinear};
  if (site == Site::ln2_out) return {"dy_{t,i} = Σ_{o} dz_{t,o} · W_{o,i}", kLinear};
  return {"", kModel};
}

SectionWords ffn_gradient_words(const BlockConfig& block, Site site) {
  const DenseConfig& c = dense_of(block);
  switch (site) {
    case Site::mlp_post:
    case Site::expert_post:
      return {"da_{t,i} = Σ_{o} dy_{t,o} · W_{o,i}", kLinear};
    case Site::mlp_pre:
    case Site::expert_gate:
      if (c.activation == Activation::relu && !c.gated)
        return {"dz_{t,i} = da_{t,i} \"if\" z_{t,i} > 0, \"else\" 0", kElementwise};
      return {c.gated ? "dz_{t,i} = da_{t,i} · act'(z_{t,i}) · u_{t,i}" : "dz_{t,i} = da_{t,i} · act'(z_{t,i})",
              kElementwise};
    case Site::mlp_pre_linear:
    case Site::expert_pre:
      return {"du_{t,i} = da_{t,i} · act(z_{t,i})", kElementwise};
    case Site::expert_weights:
    case Site::router_logits:
    case Site::expert_out:
      return {"", kRoute};
    default:
      return {"", kBlock};
  }
}

}  // namespace

SectionWords words_of(const ModelConfig& c, const SiteId& id) {
  if (const auto value = norm_value(id.site)) return norm_words(c, value->part);
  const BlockConfig& block = c.blocks[static_cast<std::size_t>(std::max(id.layer, 0))];
  switch (group_of(id.site)) {
    case SiteGroup::stream:
      return stream_words(c, block, id);
    case SiteGroup::attention:
      return attention_words(block.attention(), id.site);
    case SiteGroup::ffn:
      return ffn_words(block, id.site);
    case SiteGroup::ends:
      break;
  }
  return end_words(c, id.site);
}

SectionWords gradient_words_of(const ModelConfig& c, const SiteId& id) {
  if (const auto value = norm_value(id.site)) return norm_gradient_words(c, id.site, value->part);
  const BlockConfig& block = c.blocks[static_cast<std::size_t>(std::max(id.layer, 0))];
  switch (group_of(id.site)) {
    case SiteGroup::stream:
      return stream_gradient_words(c, block, id);
    case SiteGroup::attention:
      return attention_gradient_words(block.attention(), id.site);
    case SiteGroup::ffn:
      return ffn_gradient_words(block, id.site);
    case SiteGroup::ends:
      break;
  }
  return end_gradient_words(c, id.site);
}

SectionWords gradient_words_of(const ModelConfig& c, std::string_view param) {
  const bool is_norm = param.find("ln") != std::string_view::npos || param.find("_norm.") != std::string_view::npos;
  if (is_norm && param.ends_with(".weight")) return {"dg_{i} = Σ_{t} dy_{t,i} · n_{t,i}", kNorm};
  if (is_norm) return {"db_{i} = Σ_{t} dy_{t,i}", kNorm};
  if (param == "pos_embed.weight") return {"dP_{t} = dx_{t}", kEmbed};
  if (param == "embed.weight" && c.head.tied) {
    return {"dE_{v} = Σ_{\"t with\" id(t) = v} dx_{t} + Σ_{t} dz_{t,v} · h_{t}",
            "src/ops/embed.cpp, src/ops/linear.cpp"};
  }
  if (param == "embed.weight") return {"dE_{v} = Σ_{\"t with\" id(t) = v} dx_{t}", kEmbed};
  if (param.ends_with(".bias")) return {"db_{o} = Σ_{t} dy_{t,o}", kLinear};
  return {"dW_{o,i} = Σ_{t} dy_{t,o} · x_{t,i}", kLinear};
}

std::string meaning_of_param(std::string_view param) {
  static constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
      {"pos_embed.", "position embeddings: a row per position"},
      {"unembed.", "head: a row per token"},
      {"embed.", "token embeddings: a row per token"},
      {"ln1_post.", "norm after attention"},
      {"ln1.", "norm before attention"},
      {"attn.wq.", "query projection"},
      {"attn.wk.", "key projection"},
      {"attn.wv.", "value projection"},
      {"attn.wo.", "output projection of attention"},
      {"attn.q_norm.", "norm of queries"},
      {"attn.k_norm.", "norm of keys"},
      {"ln2_post.", "norm after the feed-forward sublayer"},
      {"ln2.", "norm before the feed-forward sublayer"},
      {"shared_gate.", "gate of the shared expert"},
      {"router.", "router: a row per expert"},
      {"w_gate.", "gate projection of the feed-forward sublayer"},
      {"w_up.", "up projection of the feed-forward sublayer"},
      {"w_down.", "down projection of the feed-forward sublayer"},
      {"ln_final.", "final norm"},
  };
  for (const auto& [key, meaning] : kMeanings) {
    if (param.find(key) == std::string_view::npos) continue;
    const std::string_view what = param.ends_with(".bias")                                               ? ": shift"
                                  : key.starts_with("ln") || key.find("_norm") != std::string_view::npos ? ": gain"
                                                                                                         : "";
    return std::string(meaning) + std::string(what);
  }
  return "";
}

}  // namespace vitrine
