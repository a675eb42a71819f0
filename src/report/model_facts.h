// The facts of a model that `info` reports: architecture, parameters, cost.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/load.h"
#include "inspect/account.h"
#include "inspect/parameter_table.h"
#include "model/config.h"
#include "pass/compute.h"
#include "report/cluster_facts.h"

namespace vitrine {

/// A model with or without weights.
struct ModelFacts {
  std::string name, description, source;
  ModelConfig config;
  std::map<std::string, std::string> stored_names{};  ///< By vitrine's names; empty without a file.
  std::int64_t stored_bytes = 0;
  std::int64_t per_layer_bytes = 0;            ///< Of these, those of per-layer embeddings.
  std::string types{};                         ///< "bf16", "bf16, f32"
  std::map<DType, std::int64_t> multiplied{};  ///< The bytes of parameters by which rows are multiplied, by their type.
  Compute compute = Compute::automatic;
  std::string products = "f32";  ///< The numbers that most products multiply: "int8", "bf16" or "f32".
  std::vector<UnreadTensors> unread{};
  std::vector<std::string> notes{};  ///< Checkpoint::notes
  Json file{};                       ///< config.json, if there are no weights.
};

/// The facts of a config.json; `name` is its path or that of a preset. Throws as family_of() and read_model_config().
ModelFacts config_facts(const Json& config, const std::string& name);
/// The facts of a checkpoint, opened from `path`. `compute` must have been checked (check_compute).
ModelFacts checkpoint_facts(const Checkpoint& checkpoint, const std::string& path, Compute compute);

/// The workload whose cost `info` reports.
struct InfoRequest {
  std::int64_t batch = 1;
  std::int64_t length = 0;  ///< Tokens of each sequence; 0: 1024, or the context if shorter.
  std::optional<std::int64_t> source_length{};
  KvTypes kv{};
  AppliedAdapters adapters{};
  std::optional<ClusterRequest> cluster{};  ///< In training.
};

/// The phases that the model has: one that attends to later tokens does not decode.
std::vector<Phase> phases_of(const ModelConfig& config);
Workload workload_of(const InfoRequest& request, const ModelFacts& facts, Phase phase);
/// The name in the file of a row's first parameter; "" without a file.
std::string stored_name(const ModelFacts& facts, const ParameterRow& row);
/// "encoder" or "decoder", followed by `end`; "" with one stack.
std::string stack_prefix(Stack stack, const char* end);

/// What `info --json` prints.
Json info_json(const InfoRequest& request, const ModelFacts& facts);

/// The size of a model's parameters as they are stored, in bytes.
std::int64_t stored_bytes(const Model& model);

}  // namespace vitrine
