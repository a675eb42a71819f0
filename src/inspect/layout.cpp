#include "inspect/layout.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

bool has_site(const ModelConfig& config, const BlockConfig& block, Site site) {
  switch (site) {
    case Site::pos_embed:
      return config.embedding.learned_positions;
    case Site::ln1_scale:
    case Site::ln1_normalized:
    case Site::ln1_out:
      return block.norms.attn_pre.has_value();
    case Site::rot_q:
    case Site::rot_k:
      return block.attention.rope.has_value();
    case Site::ln1_post_scale:
    case Site::ln1_post_normalized:
    case Site::ln1_post_out:
      return block.norms.attn_post.has_value();
    case Site::ln2_scale:
    case Site::ln2_normalized:
    case Site::ln2_out:
      return block.norms.ffn_pre.has_value();
    case Site::mlp_pre_linear:
      return std::get<DenseConfig>(block.ffn).gated;
    case Site::ln2_post_scale:
    case Site::ln2_post_normalized:
    case Site::ln2_post_out:
      return block.norms.ffn_post.has_value();
    default:
      return true;
  }
}

/// Reads a shape as pass/sites.cpp writes it: `[T, H, dh]`.
std::vector<Extent> resolve(std::string_view shape, const ModelConfig& config, const BlockConfig& block) {
  std::vector<Extent> result;
  for (std::size_t at = 1; at < shape.size();) {
    const std::size_t end = shape.find_first_of(",]", at);
    const std::string_view word = shape.substr(at, end - at);
    if (word == "T" || word == "S") {
      result.push_back({word[0], 0});
    } else if (word == "T-1") {
      result.push_back({'T', -1});
    } else {
      const std::int64_t size = word == "1"      ? 1
                                : word == "d"    ? config.d_model
                                : word == "V"    ? config.vocab_size
                                : word == "H"    ? block.attention.n_heads
                                : word == "K"    ? block.attention.n_kv_heads
                                : word == "dh"   ? block.attention.head_dim
                                : word == "d_ff" ? std::get<DenseConfig>(block.ffn).d_ff
                                                 : 0;
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
