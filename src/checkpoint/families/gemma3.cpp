// Gemma 3, its text models: five layers with a window to one without, each kind with its own RoPE; norms of q and k.
// Embedding models read both ways. Sources: Gemma Team 2025; transformers, models/gemma3; the published config.json
// files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family gemma3_family() {
  Family family = decoder_family("gemma3_text", "Gemma3ForCausalLM", [](ConfigReader& c) {
    for (const char* key : {"cache_implementation", "_sliding_window_pattern"}) c.ignore(key);  // layer_types decides
    c.expect(!c.has("attn_logit_softcapping"), "attn_logit_softcapping", "null, as the published models have");
    DecoderKeys keys{.max_seq_len = 131072, .activation = "gelu_pytorch_tanh", .activation_key = "hidden_activation"};
    keys.may_be_bidirectional = true;
    keys.rope.theta = 1e6;
    keys.rope.layer_type = "full_attention";
    ModelConfig model = read_gemma_decoder(c, keys);
    model.head.softcap = read_softcap(c, "final_logit_softcapping", std::nullopt);

    const RopeConfig local =
        read_rope(c, attention_of(model, 0)->head_dim, c.size_or("max_position_embeddings", keys.max_seq_len),
                  {.theta_key = "rope_local_base_freq", .layer_type = "sliding_attention"});
    const float score_scale = inverse_sqrt(c.positive_or("query_pre_attn_scalar", 256));
    norm_q_and_k(model, QkNormConfig::Over::head);
    const bool both_ways = c.flag_or("use_bidirectional_attention", false);
    const std::int64_t width = c.size_or("sliding_window", 4096), window = both_ways ? width / 2 + 1 : width;
    const std::vector<bool> sliding =
        read_sliding_layers(c, model.blocks.size(), c.size_or("sliding_window_pattern", 6));
    for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
      for (Sublayer& sublayer : model.blocks[layer].sublayers) sublayer.norms.post = model.final_norm;
      AttentionConfig& attention = *find<AttentionConfig>(model.blocks[layer]);
      attention.score_scale = score_scale;
      attention.bidirectional = both_ways;
      if (!sliding[layer]) continue;
      attention.window = window;
      attention.rope = local;
    }
    return model;
  });
  family.others = {"Gemma3TextModel"};
  add_four_norms(family);
  family.tasks = decoder_classes(0);
  return family;
}

}  // namespace vitrine
