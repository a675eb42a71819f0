// Falcon-H1: attention and Mamba-2 next to each other in every block, and multipliers of nearly everything. Sources:
// TII 2025; transformers, models/falcon_h1; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

/// Numbers of a list of `n`; 1 if the key is absent.
std::vector<float> read_multipliers(ConfigReader& c, std::string_view key, std::size_t n) {
  std::vector<float> values(n, 1.0f);
  if (!c.has(key)) return values;
  const std::vector<double> read = c.numbers(key);
  if (read.size() != n) throw BadCheckpoint(c.where(), "{}: expected {} numbers, got {}", key, n, read.size());
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(read[i]);
  return values;
}

ModelConfig read_falcon_h1(ConfigReader& c) {
  const auto multiplier = [&](std::string_view key) { return static_cast<float>(c.positive_or(key, 1)); };
  DecoderKeys keys{.max_seq_len = 8192};
  keys.norm.eps = 1e-5f;
  ModelConfig model = read_decoder(c, keys);
  for (const char* key : {"attn_layer_indices", "mlp_expansion_factor", "mamba_use_mlp"}) c.ignore(key);
  read_biases(c, model);
  model.embedding.scale = multiplier("embedding_multiplier");
  model.head.scale = multiplier("lm_head_multiplier");
  const bool has_inner = !c.contains("mamba_d_ssm") || c.has("mamba_d_ssm");
  const auto inner = has_inner ? std::optional(c.size_or("mamba_d_ssm", 1024)) : std::nullopt;
  Mamba2Config mamba = read_mamba2(c, model, {}, inner);
  mamba.out_bias = c.flag_or("projectors_bias", false);
  if (!c.flag_or("mamba_rms_norm", false)) mamba.norm.reset();
  const bool norm_first = c.flag_or("mamba_norm_before_gate", true);
  mamba.norm_before_gate = mamba.norm && norm_first;
  const std::vector<float> parts = read_multipliers(c, "ssm_multipliers", 5);
  mamba.factors = {multiplier("ssm_in_multiplier"), parts[0], parts[1], parts[2], parts[3], parts[4]};
  const std::vector<float> ffn = read_multipliers(c, "mlp_multipliers", 2);
  for (BlockConfig& block : model.blocks) {
    Sublayer& attention = block.sublayers[0];
    attention.input_scale = multiplier("attention_in_multiplier");
    attention.scale = multiplier("attention_out_multiplier");
    find<AttentionConfig>(block)->key_scale = multiplier("key_multiplier");
    find<DenseConfig>(block)->gate_scale = ffn[0];
    find<DenseConfig>(block)->out_scale = ffn[1];
    Sublayer beside{mamba, {}, Sublayer::Input::previous};
    beside.scale = multiplier("ssm_out_multiplier");
    block.sublayers.insert(block.sublayers.begin() + 1, beside);
  }
  return model;
}

}  // namespace

Family falcon_h1_family() {
  Family family = decoder_family("falcon_h1", "FalconH1ForCausalLM", read_falcon_h1);
  add_mamba(family, "mamba");
  add_feed_forward(family);
  add_tensors(family.tensors,
              {{"{p}layers.{l}.pre_ff_layernorm", {"blocks.{l}.ln2"}}, {"{p}final_layernorm", {"ln_final"}}});
  return family;
}

}  // namespace vitrine
