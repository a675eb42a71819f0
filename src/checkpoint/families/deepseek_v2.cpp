// DeepSeek V2: latent attention, dense layers, then experts with a softmax router, which ranks groups by their largest
// score and never divides the weights of the chosen. Sources: DeepSeek-AI 2024 (DeepSeek-V2); transformers,
// models/deepseek_v2; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

MoeConfig read_deepseek_v2_experts(ConfigReader& c, const ModelConfig& model) {
  MoeConfig moe = read_experts(c, model,
                               {.n_experts_key = "n_routed_experts",
                                .n_experts = 64,
                                .d_ff_key = "moe_intermediate_size",
                                .d_ff = 1407,
                                .n_shared_key = "n_shared_experts",
                                .n_shared = 2});
  moe.renormalize = false;
  c.expect(!c.flag_or("norm_topk_prob", false), "norm_topk_prob", "false");
  c.expect(c.text_or("scoring_func", "softmax") == "softmax", "scoring_func", "softmax");
  const std::string method = c.text_or("topk_method", "greedy");
  c.expect(method == "greedy" || method == "group_limited_greedy", "topk_method", "greedy or group_limited_greedy");
  const std::int64_t groups = c.size_or("n_group", 1), top_groups = c.size_or("topk_group", 1);
  if (method != "greedy") moe.router.groups = groups, moe.router.top_groups = top_groups;
  moe.router.scale = static_cast<float>(c.number_or("routed_scaling_factor", 1));
  return moe;
}

}  // namespace

Family deepseek_v2_family() {
  const auto read = [](ConfigReader& c) {
    for (const char* key : {"aux_loss_alpha", "ep_size", "seq_aux"}) c.ignore(key);  // training
    c.ignore("num_nextn_predict_layers");                                            // not run
    c.expect(c.number_or("moe_layer_freq", 1) == 1, "moe_layer_freq", "1");
    ModelConfig model = read_latent_decoder(c, {.max_seq_len = 2048}, {});
    const bool mlp_bias = c.flag_or("mlp_bias", false);
    for (DenseConfig* dense : every<DenseConfig>(model.blocks)) dense->bias = mlp_bias;
    MoeConfig moe = read_deepseek_v2_experts(c, model);
    moe.expert.bias = false;  // of the routed experts alone
    put_experts(model, moe, read_first_sparse_layer(c, 0));
    return model;
  };
  Family family = decoder_family("deepseek_v2", "DeepseekV2ForCausalLM", read);
  add_experts(family, "n_routed_experts");
  add_shared_experts(family);
  add_latent_attention(family);
  return family;
}

}  // namespace vitrine
