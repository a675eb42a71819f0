// ERNIE 4.5 with experts: a softmax router with a correction, shared experts, dense layers before and after. Sources:
// Baidu 2025; transformers, models/ernie4_5_moe; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family ernie4_5_moe_family() {
  Family family = decoder_family("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 131072, .tied = true};
    keys.norm.eps = 1e-5f;
    keys.rope.layout = RopeConfig::Layout::interleaved;
    keys.rope.theta = 500000;
    ModelConfig model = read_decoder(c, keys);
    const bool bias = c.flag_or("use_bias", false);
    set_biases(model, bias, false);
    MoeConfig moe = read_experts(c, model,
                                 {.n_experts_key = "moe_num_experts",
                                  .n_experts = 64,
                                  .top_k_key = "moe_k",
                                  .top_k = 6,
                                  .d_ff_key = "moe_intermediate_size",
                                  .d_ff = 1536,
                                  .n_shared_key = "moe_num_shared_experts",
                                  .n_shared = 2});
    moe.router.correction = true;
    moe.router.min = static_cast<float>(c.positive_or("moe_norm_min", 1e-12));
    const double first = c.number_or("moe_layer_start_index", 1), last = c.number_or("moe_layer_end_index", -1);
    const std::int64_t interval = c.size_or("moe_layer_interval", 1);
    put_experts(model, moe, [&](std::int64_t i) {
      const auto layer = static_cast<double>(i);
      return layer >= first && (last == -1 || layer <= last) && (i + 1) % interval == 0;
    });
    return model;
  });
  family.others = {"Ernie4_5_MoEForCausalLM"};  // in the first published files
  add_experts(family, "moe_num_experts", "moe_k");
  add_shared_experts(family);
  TensorRule correction{"{p}layers.{l}.mlp.moe_statics.e_score_correction_bias", {"blocks.{l}.mlp.correction"}};
  correction.is_buffer = true;
  add_tensors(family.tensors, {correction});
  return family;
}

}  // namespace vitrine
