// Reads per-layer embeddings.
#include <cmath>

#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

void add_per_layer_embeddings(Family& family) {
  add_tensors(family.tensors, {{"{p}embed_tokens_per_layer", {"per_layer_embed"}},
                               {"{p}per_layer_model_projection", {"per_layer_proj"}},
                               {"{p}per_layer_projection_norm", {"ln_per_layer"}},
                               {"{p}layers.{l}.per_layer_input_gate", {"blocks.{l}.ple.w_gate"}},
                               {"{p}layers.{l}.per_layer_projection", {"blocks.{l}.ple.w_proj"}},
                               {"{p}layers.{l}.post_per_layer_input_norm", {"blocks.{l}.ln3_post"}}});
  // Published files also have these of layers that read the keys and values of others.
  for (const char* name : {"{p}layers.{l}.self_attn.k_proj.weight", "{p}layers.{l}.self_attn.v_proj.weight",
                           "{p}layers.{l}.self_attn.k_norm.weight", "{p}layers.{l}.self_attn.v_norm.weight"}) {
    family.ignored.push_back(name);
  }
}

void read_per_layer_embeddings(ConfigReader& c, ModelConfig& model) {
  constexpr const char* kWidth = "hidden_size_per_layer_input";
  const std::int64_t n_rows = c.size_or("vocab_size_per_layer_input", 262144);
  const bool has_none = c.contains(kWidth) && c.number_or(kWidth, 0) == 0;
  if (has_none) return;
  put_per_layer_embeddings(model, c.size_or(kWidth, 256), n_rows, *model.final_norm);
}

void put_per_layer_embeddings(StackConfig& stack, std::int64_t width, std::int64_t n_rows, const NormConfig& norm) {
  const auto factor = [](double x) { return static_cast<float>(std::sqrt(x)); };
  const auto d_model = static_cast<double>(stack.d_model);
  stack.per_layer = {n_rows, factor(static_cast<double>(width)), factor(1 / d_model), factor(0.5), norm};
  const PerLayerConfig own{width, find<DenseConfig>(stack.blocks.front())->activation};
  for (BlockConfig& block : stack.blocks) block.sublayers.push_back({own, {{}, norm}});
}

}  // namespace vitrine
