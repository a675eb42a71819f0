// From a path to a model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model.h"

namespace vitrine {

struct LoadOptions {
  std::vector<std::string> allowed_config_keys;  ///< Unknown keys of config.json to pass over.
};

/// The values for sampling that somebody has given: generation_config.json, a command line.
struct SamplingOverrides {
  std::optional<double> temperature, top_p, min_p, repeat_penalty;
  std::optional<int> top_k;
  bool greedy = false;  ///< In generation_config.json: do_sample is false.
};

struct Family;

/// A model and what its checkpoint says about using it.
struct Checkpoint {
  std::shared_ptr<const Model> model;
  std::string description;              ///< For people: the family or format.
  std::string family;                   ///< The model_type whose config this is.
  std::shared_ptr<const Family> table;  ///< The tensors of the file; null where the format gives them no names.
  std::string prefix;                   ///< Under which they stand there.
  std::string tokenizer_path;  ///< Where its tokenizer is, for load_tokenizer(); empty where the format has none.
  std::optional<std::int32_t> bos_id;
  std::vector<std::int32_t> stop_ids;  ///< Any of them ends a text.
  SamplingOverrides generation;  ///< generation_config.json.
};

/// Loads a Hugging Face folder, a GGUF or a llama2.c file, told apart by content. Weights stay where they are, mapped;
/// nothing but headers is read. Throws BadInput for a path that leads nowhere, BadCheckpoint, Unsupported.
Checkpoint load_checkpoint(const std::string& path, const LoadOptions& options = {});

}  // namespace vitrine
