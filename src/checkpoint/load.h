// Loads a model from a path.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/sampling_overrides.h"
#include "model/model.h"
#include "pass/compute.h"

namespace vitrine {

struct LoadOptions {
  std::vector<std::string> allowed_config_keys;  ///< Unknown keys of config.json to accept.
  std::vector<std::string> allowed_tensors{};    ///< Unknown tensors to ignore; NAME* stands for all that begin so.
  bool without_values = false;  ///< Only headers are there: the bytes of tensors say nothing, and are not read.
};

/// How generation_config.json, or an old config.json, wants texts to be searched for. Ids and counts are as in the
/// file.
struct SearchDefaults {
  std::optional<std::int64_t> n_beams, max_length, max_new_tokens, min_length, min_new_tokens, no_repeat_ngram;
  std::optional<double> length_penalty;
  std::optional<std::string> early_stop;  ///< "no", "yes" or "never".
  std::optional<std::int32_t> forced_first, forced_last;
  std::vector<std::vector<std::int32_t>> bad_words;
  std::vector<std::int32_t> suppressed, suppressed_first;
  std::vector<std::pair<std::vector<std::int32_t>, float>> sequence_bias;
  std::optional<double> source_penalty;
  std::optional<std::int64_t> source_no_repeat_ngram;
  std::optional<std::pair<std::int64_t, double>> stop_growth;
  std::vector<std::string> stop_strings;
  bool samples = false;  ///< do_sample is true.
  std::string refused;   ///< A key without which the text would be another, and which is not supported; empty: none.
};

/// Tensors of a file that the model does not have.
struct UnreadTensors {
  std::string what;  ///< "vision_tower"
  std::int64_t count = 0, bytes = 0;
};

struct Family;
struct StoredTensors;

/// A model, and the tokenizer, special ids and sampling defaults of its checkpoint.
struct Checkpoint {
  std::shared_ptr<const Model> model;
  std::string description;              ///< For display: the family or format.
  std::string family;                   ///< model_type of the family.
  std::shared_ptr<const Family> table;  ///< The file's names of tensors; null if the format has none.
  std::string prefix;                   ///< Of those names.
  /// Of the rows of q and k in the family's own files, which this file permutes; absent: as in this file.
  std::optional<RopeConfig::Layout> published_layout;
  bool has_folded_factors = false;  ///< The file has factors in its weights that the family has in its config.
  std::shared_ptr<const StoredTensors> stored;           ///< All tensors under the file's names; null: it has no names.
  std::vector<std::shared_ptr<const MappedFile>> files;  ///< All that the parameters are read from.
  std::vector<UnreadTensors> unread;                     ///< What else the file holds.
  std::string wrapper;         ///< model_type of the model whose text half this is; "": of none.
  std::string config;          ///< config.json, of the text half; "" if the format has none.
  bool asks_float32 = false;   ///< The dtype of config.json is float32.
  std::string tokenizer_path;  ///< For load_tokenizer(); empty if the format has no tokenizer.
  std::optional<std::int32_t> bos_id;
  std::optional<std::int32_t> start_id;  ///< The first token that a decoder with an encoder reads.
  std::optional<std::int32_t> pad_id;
  std::vector<std::int32_t> stop_ids;  ///< Any of them ends a text.
  std::vector<std::string> notes;      ///< What the reader of the file should know, one line each.
  SamplingOverrides generation;        ///< generation_config.json.
  SearchDefaults search;
};

/// How the weights are multiplied if a user asks for `asked`: with Compute::automatic, in a model whose config.json
/// asks for float32, bfloat16 weights multiply floats. Throws as check_compute().
Compute checked_compute(const Checkpoint& checkpoint, Compute asked);

/// Loads a Hugging Face folder, a GGUF or a llama2.c file, recognized by its content. Weights are memory-mapped; only
/// tensors with interleaved rows (Rows::by_kv_head) are copied. Throws BadInput for a path that does not exist,
/// BadCheckpoint, Unsupported.
Checkpoint load_checkpoint(const std::string& path, const LoadOptions& options = {});

}  // namespace vitrine
