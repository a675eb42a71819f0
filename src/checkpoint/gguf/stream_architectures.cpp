// The architecture of GGUF files whose models have several residual streams (AltUp) and a learned residual branch
// (LAuReL). Sources: as in architecture.h; llama.cpp, src/models/gemma3n.cpp, whose sizes are constants.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "checkpoint/gguf/architecture.h"

namespace vitrine {
namespace {

using Kind = GgufKey::Kind;

std::vector<TensorRule> stream_tensors() {
  return {{"altup_proj", {"stream_in.{s}"}},
          {"altup_unembd_proj", {"stream_out.{s}"}},
          {"per_layer_token_embd", {"per_layer_embed"}},
          {"per_layer_model_proj", {"per_layer_proj"}},
          {"per_layer_proj_norm", {"ln_per_layer"}},
          {"blk.{l}.altup_router_norm", {"blocks.{l}.altup.ln"}},
          {"blk.{l}.altup_router", {"blocks.{l}.altup.router"}},
          {"blk.{l}.altup_predict_coef", {"blocks.{l}.altup.predict"}},
          {"blk.{l}.altup_correct_coef", {"blocks.{l}.altup.correct"}},
          {"blk.{l}.altup_correct_scale", {"blocks.{l}.altup.scale"}},
          {"blk.{l}.laurel_l", {"blocks.{l}.laurel.w_left"}},
          {"blk.{l}.laurel_r", {"blocks.{l}.laurel.w_right"}},
          {"blk.{l}.laurel_post_norm", {"blocks.{l}.laurel.ln"}},
          {"blk.{l}.inp_gate", {"blocks.{l}.ple.w_gate"}},
          {"blk.{l}.proj", {"blocks.{l}.ple.w_proj"}},
          {"blk.{l}.post_norm", {"blocks.{l}.ln3_post"}}};
}

/// Sizes that only the tensors have.
void complete_streams(Json& config, const StoredTensors& tensors) {
  const auto shape_of = [&](const char* name) {
    const auto it = tensors.all.find(name);
    if (it == tensors.all.end()) throw BadCheckpoint(tensors.where, "tensor {} is missing", name);
    return it->second.shape;
  };
  config["vocab_size_per_layer_input"] = shape_of("per_layer_token_embd.weight").front();
  config["laurel_rank"] = shape_of("blk.0.laurel_l.weight").front();
  config["altup_correct_scale"] = tensors.all.contains("blk.0.altup_correct_scale.weight");
  config["activation_sparsity_pattern"] = std::vector<double>(config["num_hidden_layers"].get<std::size_t>());
}

/// llama.cpp has these as constants.
std::string_view misread_streams(const ModelConfig& config) {
  constexpr std::size_t kSparseLayers = 10, kLayersWithKeys = 20;
  constexpr float kCutoff = 1.6448533535003662f;
  if (config.altup->n_streams != 4 || config.altup->active != 0) return "the number of streams, or the active one";
  if (!config.altup->scaled) return "the lack of a scale of the corrected stream";
  if (per_layer_width(config) != 256) return "the width of per-layer embeddings";
  if (!config.head.softcap) return "the lack of a softcap of the logits";
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    const AttentionConfig& attention = *attention_of(config, layer);
    const auto& cutoff = find<DenseConfig>(config.blocks[layer])->gate_cutoff;
    if (find<LaurelConfig>(config.blocks[layer])->rank != 64) return "the rank of LAuReL";
    const bool is_as_assumed = layer < kSparseLayers ? cutoff && std::abs(*cutoff - kCutoff) < 1e-6f : !cutoff;
    if (!is_as_assumed) return "the sparsity of the gates";
    if (attention.qkv_bias || attention.out_bias) return "the biases of attention";
    const auto assumed = static_cast<std::int64_t>(kLayersWithKeys) - (attention.window ? 2 : 1);
    const bool has_keys = layer < kLayersWithKeys;
    if (has_keys == attention.kv_layer.has_value() || (!has_keys && attention.kv_layer != assumed)) {
      return "the layers whose keys and values others read";
    }
  }
  return {};
}

}  // namespace

std::vector<GgufArchitecture> stream_architectures() {
  std::vector<GgufKey> keys = with_keys(
      rms_and_rope_keys(), {{"feed_forward_length", "d_ff", Kind::layer_sizes, true},
                            {"attention.sliding_window", "window", Kind::size, true},
                            {"attention.sliding_window_pattern", "layer_types", Kind::layer_flags, true},
                            {"attention.shared_kv_layers", "num_kv_shared_layers", Kind::count, true},
                            {"rope.freq_base_swa", "rope_local_base_freq", Kind::number, false, 10000.0},
                            {"embedding_length_per_layer_input", "hidden_size_per_layer_input", Kind::size, true},
                            {"altup.num_inputs", "altup_num_inputs", Kind::size, true},
                            {"altup.active_idx", "altup_active_idx", Kind::count, true},
                            {"final_logit_softcapping", "final_logit_softcapping", Kind::number}});
  return {{.name = "gemma3n",
           .family = "gemma3n_text",
           .keys = std::move(keys),
           .unread = {"blk.{l}.attn_k.weight", "blk.{l}.attn_v.weight", "blk.{l}.attn_k_norm.weight"},
           .has_gate_cutoffs = true,
           .tensors = stream_tensors(),
           .complete = complete_streams,
           .misread = misread_streams}};
}

}  // namespace vitrine
