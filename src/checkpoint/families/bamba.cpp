// Bamba: Mamba-2, and attention with RoPE on half of each head in some layers. Sources: IBM et al. 2024; transformers,
// models/bamba.
#include <algorithm>

#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_bamba(ConfigReader& c) {
  DecoderKeys keys{.max_seq_len = 262144};
  keys.norm.eps = 1e-5f;
  keys.rope.fraction_key = "partial_rotary_factor";
  keys.rope.fraction = 0.5;
  const double fraction = c.number_or("partial_rotary_factor", 0.5);
  ModelConfig model = read_decoder(c, keys);
  if (const AttendConfig* const heads = heads_of(model, 0)) {
    // transformers overrules this key where it is not in rope_parameters
    const auto n = static_cast<std::int64_t>(fraction * static_cast<double>(heads->head_dim));
    c.expect(n == heads->head_dim / 2, "partial_rotary_factor", "0.5");
  }
  c.ignore("attn_rotary_emb");  // in published files: the elements of a head that rotate
  read_biases(c, model);
  const std::vector<std::int64_t> attention = c.sizes_or_empty("attn_layer_indices");
  const auto otherwise = [&](std::size_t i) {
    return std::find(attention.begin(), attention.end(), static_cast<std::int64_t>(i)) == attention.end();
  };
  put_mixers(model, read_mamba2(c, model, {}), read_state_layers(c, model.blocks.size(), otherwise, "mamba"));
  return model;
}

}  // namespace

Family bamba_family() {
  Family family = decoder_family("bamba", "BambaForCausalLM", read_bamba);
  add_mamba(family, "mamba");
  add_feed_forward(family);
  add_tensors(family.tensors,
              {{"{p}layers.{l}.pre_ff_layernorm", {"blocks.{l}.ln2"}}, {"{p}final_layernorm", {"ln_final"}}});
  return family;
}

}  // namespace vitrine
