// Gemma 4, its text models: sizes by kind of layer, keys and values of earlier layers, per-layer embeddings, or experts
// next to a dense FFN. Sources: transformers, models/gemma4; the published config.json files.
#include <cmath>

#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family gemma4_family() {
  Family family = decoder_family("gemma4_text", "Gemma4ForCausalLM", [](ConfigReader& c) {
    // "vision": pictures attend in both directions, text does not
    c.expect(c.text_or("use_bidirectional_attention", "vision") == "vision", "use_bidirectional_attention",
             "null or \"vision\"");
    ModelConfig model = read_decoder(c, {.max_seq_len = 131072,
                                         .tied = true,
                                         .activation = "gelu_pytorch_tanh",
                                         .activation_key = "hidden_activation",
                                         .head_dim = 256,
                                         .has_rope = false});
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::head);
    model.embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(model.d_model)));
    model.head.softcap = read_softcap(c, "final_logit_softcapping", std::nullopt);
    const std::vector<bool> sliding = read_sliding_and_last_full(c, model, c.size_or("sliding_window", 512), 6);
    read_heads_by_kind(c, model, sliding);
    read_ropes_by_kind(c, model, sliding);
    const std::size_t first_shared = read_shared_keys(c, model, sliding, 0);
    const bool doubles = c.flag_or("use_double_wide_mlp", false);
    for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
      BlockConfig& block = model.blocks[layer];
      AttentionConfig& attention = *find<AttentionConfig>(block);
      attention.score_scale = 1;
      attention.v_norm = model.final_norm;
      attention.v_norm->weight = false;
      if (doubles && layer >= first_shared) find<DenseConfig>(block)->d_ff *= 2;
      for (Sublayer& sublayer : block.sublayers) sublayer.norms.post = model.final_norm;
      block.scalar = true;
    }
    read_per_layer_embeddings(c, model);
    read_experts_next_to_ffn(c, model);
    return model;
  });
  family.others = {"Gemma4TextModel"};
  add_four_norms(family);
  add_per_layer_embeddings(family);
  add_experts_next_to_ffn(family);
  TensorRule scalar{"{p}layers.{l}.layer_scalar", {"blocks.{l}.layer_scalar.weight"}};
  scalar.has_ending = false;
  add_tensors(family.tensors, {scalar});
  return family;
}

}  // namespace vitrine
