// GPT-2. Sources: Radford et al. 2019; transformers, models/gpt2 (Conv1D stores [in, out]).
#include <cmath>

#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_gpt2(ConfigReader& c) {
  c.ignore("reorder_and_upcast_attn");  // the order of scaling in half precision
  DecoderKeys keys = gpt2_keys();
  keys.max_seq_len = 1024;
  ModelConfig model = read_gpt2_decoder(c, keys);

  const bool by_head_dim = c.flag_or("scale_attn_weights", true);
  const bool by_layer = c.flag_or("scale_attn_by_inverse_layer_idx", false);
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    AttentionConfig& attention = *find<AttentionConfig>(model.blocks[layer]);
    const double scale = by_head_dim ? 1.0 / std::sqrt(static_cast<double>(attention.head_dim)) : 1.0;
    attention.score_scale = static_cast<float>(by_layer ? scale / static_cast<double>(layer + 1) : scale);
  }
  return model;
}

}  // namespace

Family gpt2_family() {
  Family family = gpt2_like_family("gpt2", "GPT2LMHeadModel", read_gpt2);
  add_tensors(
      family.tensors,
      {{"{p}h.{l}.attn.c_attn", {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"}, kTransposed},
       {"{p}h.{l}.attn.c_proj", {"blocks.{l}.attn.wo"}, kTransposed},
       {"{p}h.{l}.mlp.c_fc", {"blocks.{l}.mlp.w_up"}, kTransposed},
       {"{p}h.{l}.mlp.c_proj", {"blocks.{l}.mlp.w_down"}, kTransposed}});
  return family;
}

}  // namespace vitrine
