// Makes GGUF files of checkpoints for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/temp_folder.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/gguf/file.h"
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

/// A file of f32 tensors that can be changed and written again.
struct Published {
  Published(const Checkpoint& checkpoint, const std::string& path) {
    through_gguf(checkpoint, DType::f32, path);
    const GgufModelFile model = open_gguf(MappedFile::open(path));
    for (const auto& [key, value] : model.metadata.values()) {
      GgufKeys& one = keys[std::string(key)];
      one.add(key, value);
    }
    for (const auto& [name, tensor] : model.tensors.all) {
      const auto* data = reinterpret_cast<const char*>(tensor.bytes.data());
      tensors[name] = {tensor.shape, std::string(data, tensor.bytes.size())};
    }
  }

  template <class T>
  void set(const std::string& key, const T& value) {
    keys[key] = GgufKeys();
    keys[key].add(key, value);
  }

  Checkpoint load(const std::string& path) const {
    GgufKeys all;
    for (const auto& [key, one] : keys) all.add(one);
    GgufWriter writer(path);
    for (const auto& [name, tensor] : tensors) {
      writer.add_tensor(name, tensor.shape, 0, static_cast<std::int64_t>(tensor.bytes.size()));
    }
    writer.begin(all);
    for (const auto& [name, tensor] : tensors) writer.append(std::as_bytes(std::span(tensor.bytes)));
    writer.commit();
    return load_checkpoint(path);
  }

  struct Stored {
    std::vector<std::int64_t> shape;
    std::string bytes;
  };
  std::map<std::string, GgufKeys> keys;
  std::map<std::string, Stored> tensors;
};

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
