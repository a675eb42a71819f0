#include "inspect/layout.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

/// The sites of a feed-forward sublayer: dense ones, or those of a router and its experts.
bool has_ffn_site(const BlockConfig& block, Site site) {
  const auto* moe = std::get_if<MoeConfig>(&block.ffn);
  switch (site) {
    case Site::expert_gate:
      return moe != nullptr && moe->expert.gated;
    case Site::mlp_pre:
    case Site::mlp_post:
      return moe == nullptr;
    case Site::mlp_pre_linear:
      return moe == nullptr && std::get<DenseConfig>(block.ffn).gated;
    case Site::mlp_proj:
      return true;
    default:
      return moe != nullptr;
  }
}

bool has_norm(const BlockConfig& block, Norm norm) {
  switch (norm) {
    case Norm::ln1:
      return block.norms.attn_pre.has_value();
    case Norm::q:
    case Norm::k:
      return block.attention.qk_norm.has_value();
    case Norm::ln1_post:
      return block.norms.attn_post.has_value();
    case Norm::ln2:
      return block.norms.ffn_pre.has_value();
    case Norm::ln2_post:
      return block.norms.ffn_post.has_value();
    case Norm::final:
      break;
  }
  return true;
}

bool has_site(const ModelConfig& config, const BlockConfig& block, Site site) {
  if (const auto value = norm_value(site)) return has_norm(block, value->norm);
  if (group_of(site) == SiteGroup::ffn) return has_ffn_site(block, site);
  switch (site) {
    case Site::pos_embed:
      return config.embedding.learned_positions;
    case Site::rot_q:
    case Site::rot_k:
      return block.attention.rope.has_value();
    case Site::resid_mid:
      return block.residual == BlockConfig::Residual::serial;
    default:
      return true;
  }
}

/// The size that a word of a shape stands for; 0 for an unknown word.
std::int64_t size_of_word(std::string_view word, const ModelConfig& config, const BlockConfig& block) {
  const AttentionConfig& a = block.attention;
  const bool by_head = a.qk_norm && a.qk_norm->over != QkNormConfig::Over::all_heads;
  if (word == "1") return 1;
  if (word == "d") return config.d_model;
  if (word == "V") return config.vocab_size;
  if (word == "H") return a.n_heads;
  if (word == "K") return a.n_kv_heads;
  if (word == "dh") return a.head_dim;
  if (word == "Nq") return by_head ? a.n_heads : 1;
  if (word == "Nk") return by_head ? a.n_kv_heads : 1;
  if (word == "nq") return by_head ? a.head_dim : a.n_heads * a.head_dim;
  if (word == "nk") return by_head ? a.head_dim : a.n_kv_heads * a.head_dim;
  if (const auto* moe = std::get_if<MoeConfig>(&block.ffn)) {
    return word == "E" ? moe->n_experts : word == "k" ? moe->top_k : word == "d_fe" ? moe->expert.d_ff : 0;
  }
  return word == "d_ff" ? std::get<DenseConfig>(block.ffn).d_ff : 0;
}

/// Reads a shape as pass/sites.cpp writes it: `[T, H, dh]`.
std::vector<Extent> resolve(std::string_view shape, const ModelConfig& config, const BlockConfig& block) {
  std::vector<Extent> result;
  for (std::size_t at = 1; at < shape.size();) {
    const std::size_t end = shape.find_first_of(",]", at);
    const std::string_view word = shape.substr(at, end - at);
    if (word == "T" || word == "S" || word == "n") {
      result.push_back({word[0], 0});
    } else if (word == "T-1") {
      result.push_back({'T', -1});
    } else {
      const std::int64_t size = size_of_word(word, config, block);
      if (size == 0) throw InternalError("sites", "the shape {} has a size without a meaning", shape);
      result.push_back({0, size});
    }
    at = end + 2;
  }
  return result;
}

}  // namespace

std::vector<LayerGroup> layer_groups(const ModelConfig& config) {
  std::vector<LayerGroup> groups;
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const auto alike = [&](const LayerGroup& group) {
      return config.blocks[static_cast<std::size_t>(group.first())] == config.blocks[i];
    };
    const auto it = std::find_if(groups.begin(), groups.end(), alike);
    if (it == groups.end()) {
      groups.push_back({{static_cast<int>(i)}});
    } else {
      it->layers.push_back(static_cast<int>(i));
    }
  }
  return groups;
}

std::string to_string(const LayerGroup& group) {
  const std::vector<int>& l = group.layers;
  const int step = l.size() > 1 ? l[1] - l[0] : 1;
  bool regular = true;
  for (std::size_t i = 1; i < l.size(); ++i) regular = regular && l[i] - l[i - 1] == step;
  if (l.size() == 1) return std::to_string(l[0]);
  if (regular && step == 1) return std::to_string(l[0]) + "-" + std::to_string(l.back());
  std::string text;
  if (regular && l.size() > 4) {
    return std::to_string(l[0]) + ", " + std::to_string(l[1]) + ", …, " + std::to_string(l.back());
  }
  for (const int layer : l) text += (text.empty() ? "" : ", ") + std::to_string(layer);
  return text;
}

std::vector<SiteLayout> site_layout(const ModelConfig& config, int layer) {
  const BlockConfig& block = config.blocks[static_cast<std::size_t>(layer)];
  std::vector<SiteLayout> result;
  for (const SiteInfo& site : all_sites()) {
    if (site.on_demand || !has_site(config, block, site.site)) continue;
    result.push_back({{site.site, site.in_block ? layer : -1}, resolve(site.shape, config, block)});
  }
  return result;
}

std::string to_string(const std::vector<Extent>& shape) {
  std::string text;
  for (const Extent& extent : shape) {
    text += text.empty() ? "[" : ", ";
    if (extent.letter != 0) text += extent.letter;
    if (extent.letter == 0 || extent.size != 0) text += std::to_string(extent.size);
  }
  return text + "]";
}

}  // namespace vitrine
