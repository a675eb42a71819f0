// Gemma 3n, its text models: several streams (AltUp), a learned residual branch (LAuReL), sparse gates in the first
// layers, keys and values of earlier layers, per-layer embeddings. Sources: transformers, models/gemma3n; the published
// config.json files.
#include <cmath>

#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family gemma3n_family() {
  Family family = decoder_family("gemma3n_text", "Gemma3nForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 32768,
                     .tied = true,
                     .activation = "gelu_pytorch_tanh",
                     .activation_key = "hidden_activation",
                     .d_ff_key = "",  // one number, or one for each layer
                     .d_ff_factor = 1,
                     .head_dim = 256};
    keys.rope.theta = 1e6;
    keys.rope.layer_type = "full_attention";
    ModelConfig model = read_decoder(c, keys);
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::head);
    model.embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(model.d_model)));
    model.head.softcap = read_softcap(c, "final_logit_softcapping", 30.0);
    const RopeConfig local = read_rope(c, attention_of(model, 0)->head_dim, model.max_seq_len,
                                       {.theta_key = "rope_local_base_freq", .layer_type = "sliding_attention"});
    const std::int64_t window = c.size_or("sliding_window", 512);
    const std::vector<bool> sliding = read_sliding_layers(c, model.blocks.size(), 5);
    const std::vector<std::int64_t> d_ff = c.sizes_of_layers("intermediate_size", model.blocks.size(), 16384);
    for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
      BlockConfig& block = model.blocks[layer];
      AttentionConfig& attention = *find<AttentionConfig>(block);
      attention.score_scale = 1;
      attention.v_norm = model.final_norm;
      attention.v_norm->weight = false;
      find<DenseConfig>(block)->d_ff = d_ff[layer];
      for (Sublayer& sublayer : block.sublayers) sublayer.norms.post = model.final_norm;
      if (!sliding[layer]) continue;
      attention.window = window;
      attention.rope = local;
    }
    read_shared_keys(c, model, sliding, 15);
    read_sparsity(c, model);
    read_per_layer_embeddings(c, model);
    c.expect(model.per_layer.has_value(), "hidden_size_per_layer_input", "a size");
    read_streams(c, model);
    return model;
  });
  family.others = {"Gemma3nTextModel"};
  add_four_norms(family);
  add_per_layer_embeddings(family);
  add_streams(family);
  return family;
}

}  // namespace vitrine
