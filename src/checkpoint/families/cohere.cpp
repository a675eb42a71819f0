// Cohere's Command R: a parallel block on one norm, interleaved RoPE, scaled logits. Sources: transformers,
// models/cohere; the published config.json files.
#include "base/error.h"
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_cohere(ConfigReader& c) {
  c.refuse("use_qk_norm");  // one weight a head and element
  DecoderKeys keys{.max_seq_len = 8192, .tied = true, .eps_key = "layer_norm_eps"};
  keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, false};
  keys.rope.layout = RopeConfig::Layout::interleaved;
  keys.rope.theta = 500000;
  ModelConfig model = read_decoder(c, keys);
  const double logit_scale = c.number_or("logit_scale", 0.0625);
  if (!(logit_scale > 0)) throw BadCheckpoint(c.where(), "logit_scale must be above 0, got {}", logit_scale);
  model.head.scale = static_cast<float>(logit_scale);
  const bool bias = c.flag_or("attention_bias", false);
  for (BlockConfig& block : model.blocks) {
    block.residual = BlockConfig::Residual::parallel;
    block.norms.ffn_pre.reset();
    block.norms.ffn_reads_attn_pre = true;
    block.attention().qkv_bias = block.attention().out_bias = bias;
  }
  return model;
}

}  // namespace

Family cohere_family() {
  Family family;
  family.model_type = "cohere";
  family.architectures = {"CohereForCausalLM"};
  family.read_config = read_cohere;
  use_decoder_names(family);
  add_pre_norms(family);
  return family;
}

}  // namespace vitrine
