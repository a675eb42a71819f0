// Makes GGUF files of checkpoints for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/temp_folder.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/init.h"
#include "checkpoint/load.h"
#include "support/run.h"

namespace vitrine::test {

/// Writes `checkpoint` as a GGUF file without a tokenizer and loads it.
inline Checkpoint through_gguf(const Checkpoint& checkpoint, DType dtype, const std::string& path) {
  ThreadPool pool(2);
  write_gguf(path, checkpoint, dtype, {}, pool);
  return load_checkpoint(path);
}

/// A Llama with `changes` to its config, random weights and rows of 256 elements, which are whole blocks of every
/// format.
inline Checkpoint wide_llama(const std::string& folder, const Json& changes = Json::object()) {
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"hidden_size", 256},
                 {"intermediate_size", 512},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 4},
                 {"vocab_size", 67},
                 {"max_position_embeddings", 64},
                 {"initializer_range", 0.1},
                 {"tie_word_embeddings", true}};
  config.update(changes);
  ThreadPool pool(2);
  init_checkpoint(config, "config", folder, DType::f32, 7, pool);
  return load_checkpoint(folder);
}

/// The stored types of the parameters, by name.
inline std::map<std::string, DType> stored_types(const Model& model) {
  std::map<std::string, DType> types;
  for_each_param(model.config(), model.params(),
                 [&](const Param& param, const std::string& name, const Shape&) { types[name] = param.view.dtype; });
  return types;
}

/// The largest difference of two lists, as a part of 1 + the largest number of the second.
inline float difference(const std::vector<float>& ours, const std::vector<float>& reference) {
  float worst = 0, largest = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    worst = std::max(worst, std::abs(ours[i] - reference[i]));
    largest = std::max(largest, std::abs(reference[i]));
  }
  return ours.size() == reference.size() ? worst / (1 + largest) : INFINITY;
}

}  // namespace vitrine::test
