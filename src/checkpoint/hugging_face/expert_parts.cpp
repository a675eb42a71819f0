// Reads the experts of published configs.
#include <algorithm>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

void expect_groups(const ConfigReader& c, const MoeConfig& moe, std::string_view n_experts_key,
                   std::string_view top_k_key, std::string_view groups_key) {
  const RouterConfig& router = moe.router;
  if (router.groups > moe.n_experts || moe.n_experts % router.groups != 0) {
    throw BadCheckpoint(c.where(), "{}: expected a multiple of {} ({}), got {}", n_experts_key, groups_key,
                        router.groups, moe.n_experts);
  }
  if (router.top_groups > router.groups) {
    throw BadCheckpoint(c.where(), "topk_group: expected at most {} ({}), got {}", groups_key, router.groups,
                        router.top_groups);
  }
  const std::int64_t most = router.top_groups * (moe.n_experts / router.groups);
  if (moe.top_k <= most) return;
  throw BadCheckpoint(c.where(), "{}: expected at most the {} experts of {} (topk_group) of {} groups, got {}",
                      top_k_key, most, router.top_groups, router.groups, moe.top_k);
}

MoeConfig read_experts(ConfigReader& c, const ModelConfig& model, const ExpertKeys& keys) {
  const auto size = [&](std::string_view key, std::int64_t otherwise) {
    return otherwise > 0 ? c.size_or(key, otherwise) : c.size(key);
  };
  for (const char* key : {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"}) c.ignore(key);
  MoeConfig moe;
  moe.n_experts = size(keys.n_experts_key, keys.n_experts);
  moe.top_k = size(keys.top_k_key, keys.top_k);
  if (moe.n_experts > 1 && moe.top_k > moe.n_experts) {
    throw BadCheckpoint(c.where(), "{}: expected at most {} ({}), got {}", keys.top_k_key, keys.n_experts_key,
                        moe.n_experts, moe.top_k);
  }
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
  if (keys.n_experts_key == ExpertKeys().n_experts_key && keys.n_shared_key.empty()) {
    keys.n_experts_key = "n_routed_experts";
    keys.n_shared_key = "n_shared_experts";
  }
  keys.d_ff_key = "moe_intermediate_size";
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
  if (c.has("n_group") || !c.has("num_expert_group")) expect_groups(c, moe, keys.n_experts_key, keys.top_k_key);
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

void read_granite_experts(ConfigReader& c, ModelConfig& model) {
  constexpr const char* kShared = "shared_intermediate_size";
  MoeConfig moe = read_experts(c, model, {.n_experts_key = "num_local_experts", .n_experts = 8, .top_k = 2});
  if (c.number_or(kShared, 0) != 0) {
    moe.shared = moe.expert;
    moe.shared->d_ff = c.size(kShared);
    moe.shared_gate = false;
  }
  put_experts(model, moe);
}

void add_granite_experts(Family& family) {
  family.balance_loss = 0.001;
  family.experts = {"{p}layers.{l}.block_sparse_moe.experts.gate_up_proj",
                    "{p}layers.{l}.block_sparse_moe.experts.down_proj", "{p}layers.{l}.block_sparse_moe.router"};
  add_tensors(family.tensors, {{"{p}layers.{l}.block_sparse_moe.router.layer", {"blocks.{l}.mlp.router"}},
                               {"{p}layers.{l}.block_sparse_moe.input_linear",
                                {"blocks.{l}.mlp.experts.{e}.w_gate", "blocks.{l}.mlp.experts.{e}.w_up"}},
                               {"{p}layers.{l}.block_sparse_moe.output_linear", {"blocks.{l}.mlp.experts.{e}.w_down"}},
                               {"{p}layers.{l}.shared_mlp.input_linear",
                                {"blocks.{l}.mlp.shared.w_gate", "blocks.{l}.mlp.shared.w_up"}},
                               {"{p}layers.{l}.shared_mlp.output_linear", {"blocks.{l}.mlp.shared.w_down"}}});
  family.keys.push_back({"n_experts", "num_local_experts"});
  family.keys.push_back({"top_k", "num_experts_per_tok"});
  family.keys.push_back({"shared_expert_intermediate_size", "shared_intermediate_size"});
}

Family granite_experts_family(std::string_view model_type, std::string_view architecture) {
  Family family = decoder_family(model_type, architecture, [](ConfigReader& c) {
    ModelConfig model = read_granite_decoder(c);
    read_attention_bias(c, model);
    read_granite_experts(c, model);
    return model;
  });
  add_granite_experts(family);
  return family;
}

void add_stacked_experts(Family& family, std::string_view gate_up, std::string_view down) {
  TensorRule both{gate_up, {"blocks.{l}.mlp.experts.{e}.w_gate.weight", "blocks.{l}.mlp.experts.{e}.w_up.weight"}};
  TensorRule one{down, {"blocks.{l}.mlp.experts.{e}.w_down.weight"}};
  both.has_ending = one.has_ending = false;
  add_tensors(family.tensors, {both, one});
}

void add_experts_next_to_ffn(Family& family) {
  family.experts = {"{p}layers.{l}.experts.gate_up_proj", "{p}layers.{l}.experts.down_proj"};
  add_stacked_experts(family, family.experts.gate_up, family.experts.down);
  std::vector<TensorRule> rules = {{"{p}layers.{l}.router.scale", {"blocks.{l}.mlp.ln_router.weight"}},
                                   {"{p}layers.{l}.router.per_expert_scale", {"blocks.{l}.mlp.expert_scale.weight"}}};
  for (TensorRule& rule : rules) rule.has_ending = false;
  rules.insert(rules.end(), {{"{p}layers.{l}.router.proj", {"blocks.{l}.mlp.router"}},
                             {"{p}layers.{l}.mlp.gate_proj", {"blocks.{l}.mlp.shared.w_gate"}},
                             {"{p}layers.{l}.mlp.up_proj", {"blocks.{l}.mlp.shared.w_up"}},
                             {"{p}layers.{l}.mlp.down_proj", {"blocks.{l}.mlp.shared.w_down"}},
                             {"{p}layers.{l}.post_feedforward_layernorm_1", {"blocks.{l}.mlp.ln_shared_post"}},
                             {"{p}layers.{l}.post_feedforward_layernorm_2", {"blocks.{l}.mlp.ln_experts_post"}},
                             {"{p}layers.{l}.pre_feedforward_layernorm_2", {"blocks.{l}.mlp.ln_experts"}}});
  add_tensors(family.tensors, rules);
  family.keys.push_back({"n_experts", "num_experts"});
  family.keys.push_back({"top_k", "top_k_experts"});
  family.keys.push_back({"d_ff_expert", "moe_intermediate_size"});
}

void read_experts_next_to_ffn(ConfigReader& c, ModelConfig& model) {
  if (!c.flag_or("enable_moe_block", false)) {
    for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"}) c.ignore(key);
    return;
  }
  MoeConfig moe = read_experts(c, model, {.top_k_key = "top_k_experts", .d_ff_key = "moe_intermediate_size"});
  moe.router.input_scale = inverse_sqrt(static_cast<double>(model.d_model));
  moe.router.expert_scale = true;
  moe.norms = {model.final_norm, model.final_norm, model.final_norm, model.final_norm};
  moe.shared_gate = false;
  for (BlockConfig& block : model.blocks) {
    moe.shared = *find<DenseConfig>(block);
    block.sublayers[1].what = moe;
  }
}

void add_feed_forward(Family& family) {
  add_tensors(family.tensors,
              {{"{p}layers.{l}.feed_forward.router", {"blocks.{l}.mlp.router"}},
               {"{p}layers.{l}.feed_forward.gate_proj", {"blocks.{l}.mlp.w_gate"}},
               {"{p}layers.{l}.feed_forward.up_proj", {"blocks.{l}.mlp.w_up"}},
               {"{p}layers.{l}.feed_forward.down_proj", {"blocks.{l}.mlp.w_down"}},
               {"{p}layers.{l}.feed_forward.shared_expert.gate_proj", {"blocks.{l}.mlp.shared.w_gate"}},
               {"{p}layers.{l}.feed_forward.shared_expert.up_proj", {"blocks.{l}.mlp.shared.w_up"}},
               {"{p}layers.{l}.feed_forward.shared_expert.down_proj", {"blocks.{l}.mlp.shared.w_down"}}});
  family.keys.push_back({"n_experts", "num_local_experts"});
  family.keys.push_back({"top_k", "num_experts_per_tok"});
}

void add_transposed_experts(Family& family, std::string_view gate_up, std::string_view down, Rows rows) {
  TensorRule both{gate_up,
                  {"blocks.{l}.mlp.experts.{e}.w_gate.weight", "blocks.{l}.mlp.experts.{e}.w_up.weight"},
                  kTransposed,
                  rows};
  TensorRule one{down, {"blocks.{l}.mlp.experts.{e}.w_down.weight"}, kTransposed};
  both.has_ending = one.has_ending = false;
  add_tensors(family.tensors, {both, one});
}

void put_experts(ModelConfig& model, const MoeConfig& moe, const std::function<bool(std::int64_t layer)>& has) {
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (has(static_cast<std::int64_t>(i))) model.blocks[i].sublayers.back().what = moe;
  }
}

void put_experts(ModelConfig& model, const MoeConfig& moe, std::int64_t first) {
  put_experts(model, moe, [first](std::int64_t layer) { return layer >= first; });
}

std::function<bool(std::int64_t)> read_sparse_layers(ConfigReader& c, std::size_t n_layers, std::int64_t first) {
  const std::vector<std::string> types = c.texts_or_empty("mlp_layer_types");
  const std::int64_t from = read_first_sparse_layer(c, first);
  if (types.empty()) return [from](std::int64_t layer) { return layer >= from; };
  const auto is_known = [](const std::string& type) { return type == "sparse" || type == "dense"; };
  if (types.size() != n_layers || !std::all_of(types.begin(), types.end(), is_known)) {
    throw BadCheckpoint(c.where(), "mlp_layer_types: expected dense or sparse for each of {} layers", n_layers);
  }
  return [types](std::int64_t layer) { return types[static_cast<std::size_t>(layer)] == "sparse"; };
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
  put_experts(model, moe, [&](std::int64_t layer) {
    return (layer + 1) % step == 0 && !std::binary_search(dense.begin(), dense.end(), layer);
  });
}

}  // namespace vitrine
