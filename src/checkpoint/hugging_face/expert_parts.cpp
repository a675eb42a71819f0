// Reads the experts of published configs.
#include <algorithm>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

MoeConfig read_experts(ConfigReader& c, const ModelConfig& model, const ExpertKeys& keys) {
  const auto size = [&](std::string_view key, std::int64_t otherwise) {
    return otherwise > 0 ? c.size_or(key, otherwise) : c.size(key);
  };
  for (const char* key : {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"}) c.ignore(key);
  MoeConfig moe;
  moe.n_experts = size(keys.n_experts_key, keys.n_experts);
  moe.top_k = size(keys.top_k_key, keys.top_k);
  moe.expert = *find<DenseConfig>(model.blocks[0]);
  moe.expert.d_ff = size(keys.d_ff_key, keys.d_ff);
  const bool has_shared =
      !keys.n_shared_key.empty() && c.number_or(keys.n_shared_key, static_cast<double>(keys.n_shared)) != 0;
  if (has_shared) {
    moe.shared = moe.expert;
    moe.shared->d_ff = moe.expert.d_ff * size(keys.n_shared_key, keys.n_shared);
    moe.shared_gate = false;
  }
  return moe;
}

MoeConfig read_grouped_experts(ConfigReader& c, const ModelConfig& model, ExpertKeys keys, bool renormalize,
                               double scale) {
  keys.n_experts_key = "n_routed_experts";
  keys.d_ff_key = "moe_intermediate_size";
  keys.n_shared_key = "n_shared_experts";
  MoeConfig moe = read_experts(c, model, keys);
  const auto expect = [&](const char* key, std::string_view word) {  // in published files; transformers drops them
    const std::string text = c.text_or(key, word);
    if (text != word) throw Unsupported(c.where(), "{}: expected \"{}\", got \"{}\"", key, word, text);
  };
  expect("scoring_func", "sigmoid");
  expect("topk_method", "noaux_tc");
  moe.router.score = RouterConfig::Score::sigmoid;
  moe.router.correction = true;
  moe.router.groups = c.size_or("n_group", keys.n_group);
  moe.router.top_groups = c.size_or("topk_group", keys.top_group);
  moe.router.group_rank = RouterConfig::GroupRank::two_largest;
  moe.router.scale = static_cast<float>(c.number_or("routed_scaling_factor", scale));
  moe.renormalize = c.flag_or("norm_topk_prob", renormalize);
  moe.router.eps = moe.renormalize ? 1e-20f : 0.0f;
  return moe;
}

Family grouped_experts_family(std::string_view model_type, std::string_view architecture,
                              std::function<ModelConfig(ConfigReader&)> read_config) {
  Family family = decoder_family(model_type, architecture, std::move(read_config));
  add_experts(family, "n_routed_experts");
  add_shared_experts(family);
  add_correction(family);
  return family;
}

void put_experts(ModelConfig& model, const MoeConfig& moe, std::int64_t first) {
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (static_cast<std::int64_t>(i) >= first) model.blocks[i].sublayers.back().what = moe;
  }
}

std::int64_t read_first_sparse_layer(ConfigReader& c, std::int64_t otherwise) {
  const double first = c.number_or("first_k_dense_replace", static_cast<double>(otherwise));
  return first == 0 ? 0 : c.size_or("first_k_dense_replace", otherwise);
}

void read_qwen_experts(ConfigReader& c, ModelConfig& model, std::int64_t n_experts, std::int64_t top_k,
                       std::int64_t d_ff, std::optional<std::int64_t> d_ff_shared) {
  MoeConfig moe;
  moe.n_experts = c.size_or("num_experts", n_experts);
  moe.top_k = c.size_or("num_experts_per_tok", top_k);
  moe.renormalize = c.flag_or("norm_topk_prob", false);
  moe.expert = *find<DenseConfig>(model.blocks[0]);
  if (d_ff_shared) {
    moe.shared = moe.expert;
    moe.shared->d_ff = c.size_or("shared_expert_intermediate_size", *d_ff_shared);
  }
  moe.expert.d_ff = c.size_or("moe_intermediate_size", d_ff);
  for (const char* key : {"output_router_logits", "router_aux_loss_coef"}) c.ignore(key);  // training
  const std::int64_t step = c.size_or("decoder_sparse_step", 1);
  std::vector<std::int64_t> dense = c.sizes_or_empty("mlp_only_layers");
  std::sort(dense.begin(), dense.end());
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool is_dense = std::binary_search(dense.begin(), dense.end(), layer) || (layer + 1) % step != 0;
    if (!is_dense) model.blocks[i].sublayers.back().what = moe;
  }
}

}  // namespace vitrine
