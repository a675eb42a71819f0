// The config of `train CONFIG.toml`. Unknown keys, and values that contradict each other, are errors. docs/training.md
// explains each key. Relative paths are relative to the current directory.
//
// The trainer calls read_train_config, creates or loads the model, then calls check_with_model. Keys that are not in
// the file have the defaults below.
//
//   [model]      one of preset = "gpt2" | config = "config.json" or a table of its keys | from = "checkpoint";
//                set = { d_model = 128, d_ff = "8/3 d, round up to 64" };
//                init = "auto" | "glorot" | "gpt2", init_std, embedding_std
//                labels, problem_type of a new head
//   [data]       one of train | conversations | pairs | texts; validation or validation_fraction, tokenizer,
//                mask_documents;
//                for conversations and pairs: mask = "auto" | "marks" | "difference",
//                learn = "assistant" | "last" | "all", template, now, order = "shuffled" | "file",
//                too_long = "error" | "drop" | "cut"
//   [preference] for pairs: objective = "dpo" | "ipo" | "hinge" | "simpo" | "orpo", beta, label_smoothing, gamma,
//                reference = "base" | "start"
//   [loss]       of texts: name, scale, symmetric, matryoshka_dims, matryoshka_weights
//   [train]      task = "classify" | "tag" | "rerank" | "embed"; objective = "next" | "masked", mask_fraction, steps or
//   epochs, batch, micro_batches, seq_len, seed,
//                dtype = "f32" | "bf16", dropout, label_smoothing, z_loss,
//                balance_loss, balance = "sequence" | "hugging_face", router_z_loss, router_bias_rate, recompute
//   [optimizer]  name = "adamw" | "sgd", beta1, beta2, eps, weight_decay, momentum
//   [schedule]   name = "cosine" | "linear" | "constant" | "stable_decay" | "inverse_sqrt", lr, warmup, decay_steps,
//   end_fraction [clip]       max_norm, or off = true [log]        every, validate_every, validate_batches,
//   sample_every, sample_prompt, sample_tokens, save_every,
//                keep_last, taps, writes, taps_every
//   [lora]       rank, alpha, dropout, scaling = "standard" | "rslora", targets = "all" | a list, layers; or from
//   [sae]        dictionaries of features to train in place of the model (train/dictionary/dictionary_config.h)
//   [lens]       a lens to train in place of the model, on data.ids (train/lens/lens_config.h)
//   [out]        folder
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/adapters/create.h"
#include "conversation/sample_file.h"
#include "model/config.h"
#include "model/initialize.h"
#include "tensor/dtype.h"
#include "train/dictionary/dictionary_config.h"
#include "train/lens/lens_config.h"
#include "train/optimizer.h"
#include "train/preference.h"
#include "train/schedule.h"
#include "train/text_options.h"

namespace vitrine {

/// Either a config.json to initialize parameters for, or a checkpoint to start from.
struct ModelSource {
  Json config;             ///< A config.json with the overrides applied; null with a checkpoint.
  std::string where;       ///< The config's name in messages.
  std::string checkpoint;  ///< A path for load_checkpoint; "": none.
  InitOptions init;
  std::vector<std::string> labels{};           ///< Of a new head on the checkpoint; empty: it has one.
  std::optional<TaskHead::Problem> problem{};  ///< Of that head.

  /// The model of `config`. Throws as read_model_config does.
  ModelConfig read() const;
  bool operator==(const ModelSource&) const = default;
};

/// How conversations and pairs are read.
struct TalkOptions {
  ConversationOptions::Mask mask = ConversationOptions::Mask::automatic;
  ConversationOptions::Learn learn = ConversationOptions::Learn::assistant;
  std::string chat_template;  ///< A file; "": the model's.
  std::string now;            ///< What templates read as the time; "": when the run starts.
  bool is_shuffled = true;    ///< Else in the order of the file.
  TooLong too_long = TooLong::refuse;

  bool operator==(const TalkOptions&) const = default;
};

/// One of train, conversations, pairs, texts, activations and ids is given.
struct DataOptions {
  std::string train;
  std::string conversations, pairs, texts;  ///< JSON Lines.
  std::string activations;                  ///< For [sae]: rows of a file in place of a model's.
  std::string ids;                          ///< For [lens]: JSON Lines of lists of ids.
  TalkOptions talk;
  std::string validation;          ///< "": a fraction of train.
  double validation_fraction = 0;  ///< 0 and no `validation`: no validation.
  std::string tokenizer;           ///< "": the checkpoint's.
  bool mask_documents = false;

  bool is_talk() const { return !conversations.empty() || !pairs.empty(); }
  bool operator==(const DataOptions&) const = default;
};

struct StepOptions {
  enum class Balance : std::uint8_t { sequence, hugging_face };
  /// next: each token predicts the next. masked: tokens that are hidden are predicted (data/masking.h).
  enum class Objective : std::uint8_t { next, masked };

  Objective objective = Objective::next;
  double mask_fraction = 0.15;
  std::int64_t steps = 0;          ///< 0: as many as `epochs` take, or as the lists of a Jacobian lens give.
  double epochs = 0;               ///< Of conversations or pairs.
  std::int64_t batch = 0;          ///< Sequences per step, all micro-batches together.
  std::int64_t micro_batches = 1;  ///< Equal parts of a step.
  std::int64_t seq_len = 0;        ///< 0: as many as the model reads of a text.
  std::uint64_t seed = 1;
  DType dtype = DType::f32;
  double dropout = 0;
  double adapter_dropout = 0;  ///< Of lora.dropout.
  double label_smoothing = 0;
  double z_loss = 0;
  double balance_loss = 0;
  bool balance_of_model = true;  ///< The model's config says what balance_loss is: the run's does not.
  Balance balance = Balance::sequence;
  double router_z_loss = 0;
  double router_bias_rate = 0;  ///< By which a step changes the corrections of routers; 0: they stay.
  bool recompute = false;

  bool operator==(const StepOptions&) const = default;
};

/// The adapter to train in place of the model's own parameters.
struct LoraOptions {
  NewAdapter adapter;
  double dropout = 0;
  std::string from;                ///< An adapter to start from; "": a new one.
  std::vector<std::string> given;  ///< With `from`: the keys of `adapter` in the config, with which it must agree.

  bool operator==(const LoraOptions&) const = default;
};

struct LogOptions {
  std::int64_t every = 1;             ///< Steps between lines of metrics.
  std::int64_t validate_every = 0;    ///< 0: never, here and below.
  std::int64_t validate_batches = 0;  ///< 0: all validation tokens.
  std::int64_t sample_every = 0;
  std::string sample_prompt;
  std::int64_t sample_tokens = 64;
  std::int64_t save_every = 0;  ///< In addition to the checkpoint at the end.
  std::int64_t keep_last = 2;   ///< Checkpoints, in addition to the best.
  std::int64_t taps_every = 0;
  std::vector<std::string> taps;    ///< Globs over sites.
  std::vector<std::string> writes;  ///< As for `trace --set`; they apply in every step.

  bool operator==(const LogOptions&) const = default;
};

struct TrainConfig {
  ModelSource model;
  DataOptions data;
  StepOptions train;
  std::optional<LoraOptions> lora;
  PreferenceOptions preference;     ///< For data.pairs.
  std::optional<TextOptions> text;  ///< For data.texts.
  std::optional<DictionaryTraining> sae;
  std::optional<LensTraining> lens;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  LogOptions log;
  std::string out;

  bool operator==(const TrainConfig&) const = default;
};

/// Throws BadInput for the errors above, and as the reader of a config.json does.
TrainConfig read_train_config(const std::string& path);
TrainConfig parse_train_config(std::string_view text, const std::string& path);
/// The same from the tables of a config as a JSON object.
TrainConfig train_config_of(Json tables, const std::string& where);

/// All keys of a config, as `section.key`.
std::vector<std::string> train_config_keys();

/// Throws BadInput if the config does not fit the model: sequences beyond its context, router losses without experts.
void check_with_model(const TrainConfig& config, const ModelConfig& model);

}  // namespace vitrine
