// MiniMax M2: sigmoid experts with a correction in every layer, q and k normalized over all heads, RoPE on a part of
// each head. Sources: MiniMax 2025; transformers, models/minimax_m2; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family minimax_m2_family() {
  Family family = decoder_family("minimax_m2", "MiniMaxM2ForCausalLM", [](ConfigReader& c) {
    for (const char* key : {"use_mtp", "num_mtp_modules", "mtp_transformer_layers"}) c.ignore(key);  // not run
    DecoderKeys keys{.max_seq_len = 196608, .head_dim = 128};
    keys.rope.theta = 5000000;
    keys.rope.fraction_key = "partial_rotary_factor";
    const double head_dim = c.number_or("head_dim", 128);
    if (c.has("rotary_dim")) keys.rope.fraction = c.positive("rotary_dim") / head_dim;
    ModelConfig model = read_decoder(c, keys);
    norm_q_and_k(model, QkNormConfig::Over::all_heads);
    for (const auto& [key, expected] : {std::pair{"scoring_func", "sigmoid"}, {"qk_norm_type", "per_layer"}}) {
      if (c.text_or(key, expected) != expected) throw Unsupported(c.where(), "{}: expected \"{}\"", key, expected);
    }
    for (const char* key : {"use_qk_norm", "use_routing_bias"}) {
      if (!c.flag_or(key, true)) throw Unsupported(c.where(), "{}: expected true", key);
    }
    MoeConfig moe = read_experts(c, model, {.n_experts_key = "num_local_experts", .n_experts = 256, .top_k = 8});
    moe.router.score = RouterConfig::Score::sigmoid;
    moe.router.correction = true;
    put_experts(model, moe);
    return model;
  });
  TensorRule correction{"{p}layers.{l}.block_sparse_moe.e_score_correction_bias", {"blocks.{l}.mlp.correction.bias"}};
  correction.has_ending = false;
  add_tensors(family.tensors, {{"{p}layers.{l}.block_sparse_moe.gate", {"blocks.{l}.mlp.router"}},
                               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w1", {"blocks.{l}.mlp.experts.{e}.w_gate"}},
                               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w3", {"blocks.{l}.mlp.experts.{e}.w_up"}},
                               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w2", {"blocks.{l}.mlp.experts.{e}.w_down"}},
                               correction});
  family.experts.router = "{p}layers.{l}.mlp.gate";
  family.keys.push_back({"n_experts", "num_local_experts"});
  family.keys.push_back({"top_k", "num_experts_per_tok"});
  family.keys.push_back({"d_ff_expert", "intermediate_size"});
  return family;
}

}  // namespace vitrine
