// The smallest complete Hugging Face folder, for targets that fuzz one of its files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.h"
#include "folder.h"

namespace vitrine::fuzz {

inline constexpr std::string_view kTinyConfig =
    R"({"model_type": "llama", "hidden_size": 2, "intermediate_size": 2, "num_hidden_layers": 1, "vocab_size": 4,
        "num_attention_heads": 1, "max_position_embeddings": 4, "tie_word_embeddings": true})";

using TinyTensors = std::vector<std::pair<std::string, Shape>>;

/// The tensors of a model with kTinyConfig.
inline TinyTensors tiny_tensors() {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", {4, 2}},       {"model.norm.weight", {2}},
          {layer + "input_layernorm.weight", {2}},     {layer + "post_attention_layernorm.weight", {2}},
          {layer + "self_attn.q_proj.weight", {2, 2}}, {layer + "self_attn.k_proj.weight", {2, 2}},
          {layer + "self_attn.v_proj.weight", {2, 2}}, {layer + "self_attn.o_proj.weight", {2, 2}},
          {layer + "mlp.gate_proj.weight", {2, 2}},    {layer + "mlp.up_proj.weight", {2, 2}},
          {layer + "mlp.down_proj.weight", {2, 2}}};
}

/// Writes ones.
inline void write_tensors(const std::string& path, const TinyTensors& tensors) {
  SafetensorsWriter writer(path, 4096);
  for (const auto& [name, shape] : tensors) {
    std::vector<float> ones(static_cast<std::size_t>(shape.count()), 1.0F);
    writer.add(name, {ones.data(), shape});
  }
  writer.commit();
}

}  // namespace vitrine::fuzz
