// The [sae] table of a training config, or its [[sae]] tables: dictionaries of features that learn. docs/training.md
// explains each key; the names and defaults are SAELens's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pass/dictionary.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include "train/toml_file.h"

namespace vitrine {

enum class LearnedArchitecture : std::uint8_t { standard, topk, batchtopk, jumprelu };
/// Whether activations are the largest of a row or of a batch.
constexpr bool has_top(LearnedArchitecture a) {
  return a == LearnedArchitecture::topk || a == LearnedArchitecture::batchtopk;
}

/// What a dictionary is.
struct DictionaryShape {
  LearnedArchitecture architecture = LearnedArchitecture::standard;
  std::int64_t d_sae = 0;  ///< 0: that of `start`.
  double k = 100;          ///< Of batchtopk a mean over the rows of a batch.
  bool subtracts_bias = true;
  bool rescales = true;  ///< Of topk and batchtopk: keys are p · ‖W_dec[i]‖.
  InputScaling::Kind normalization = InputScaling::Kind::none;
  double decoder_init_norm = 0.1;  ///< 0: rows keep the norms that are drawn.
  std::string start;               ///< A folder of weights; "": they are drawn.

  bool operator==(const DictionaryShape&) const = default;
};

/// A coefficient that rises linearly from 0 over the first steps.
struct Coefficient {
  double value = 1;
  std::int64_t warm_up_steps = 0;

  double at(std::int64_t step) const {
    return step < warm_up_steps ? value * static_cast<double>(step) / static_cast<double>(warm_up_steps) : value;
  }
  bool operator==(const Coefficient&) const = default;
};

/// The sparsity of `standard`: the p-norm of the activations times the norms of the decoder's rows.
struct L1Options {
  Coefficient coefficient;
  double lp_norm = 1;

  bool operator==(const L1Options&) const = default;
};

/// The sparsity of `jumprelu`.
struct L0Options {
  enum class Mode : std::uint8_t { step, tanh, quadratic };

  Mode mode = Mode::step;
  Coefficient coefficient;
  double init_threshold = 0.01, bandwidth = 0.05;
  double tanh_scale = 4;
  double target = 0;           ///< Of `quadratic`.
  bool reaches_input = false;  ///< jumprelu_ste_to_input
  std::optional<double> pre_act;

  bool operator==(const L0Options&) const = default;
};

/// The learning rate under SAELens's names, if the config has no [schedule].
struct DictionaryRate {
  enum class Kind : std::uint8_t { constant, cosine, restarts };

  Kind kind = Kind::constant;
  double peak = 3e-4, end = 3e-5;
  std::int64_t warm_up_steps = 0, decay_steps = 0, cycles = 1;

  bool operator==(const DictionaryRate&) const = default;
};

/// The rate of step number `step` of `steps`, counted from 0. Source: decoderesearch/SAELens,
/// sae_lens/training/optim.py.
double learning_rate(const DictionaryRate& rate, std::int64_t step, std::int64_t steps);

/// A dictionary that learns.
struct LearnedOptions {
  std::string site, site_out;  ///< site_out: "" for an SAE. Without a model, site may be "".
  DictionaryShape shape;
  L1Options l1;
  L0Options l0;
  double aux_loss_coefficient = 1;  ///< Of topk and batchtopk.
  double topk_threshold_lr = 0.01;  ///< Of batchtopk.
  std::int64_t dead_feature_window = 1000;
  std::int64_t norm_batches = 1000;  ///< n_batches_for_norm_estimate
  DictionaryRate rate;

  bool operator==(const LearnedOptions&) const = default;
};

/// How activations become batches; the same for all dictionaries of a run.
struct ActivationOptions {
  bool is_shuffled = true;
  std::int64_t context = 128;   ///< Tokens of a text that the model reads.
  std::int64_t buffer = 0;      ///< Activations among which rows are shuffled; 0: those of 20 passes.
  double mix_fraction = 0.5;    ///< The part of the buffer that stays when it is filled again.
  std::int64_t sequences = 32;  ///< Texts of a pass: store_batch_size_prompts.

  bool operator==(const ActivationOptions&) const = default;
};

struct DictionaryTraining {
  std::vector<LearnedOptions> dictionaries;
  ActivationOptions activations;
  bool has_schedule = false;  ///< The rate is that of [schedule], in place of each dictionary's.
  Json fixed, free;           ///< Of the tables: values that a resumed run must not change, and others.

  bool operator==(const DictionaryTraining&) const = default;
};

/// Reads [sae]. `streams`: the activations come from a model, not from a file. Appends the keys that it knows to
/// `keys`. Throws BadInput as read_train_config() does.
DictionaryTraining read_dictionary_training(const TomlFile& file, const std::string& path, bool streams,
                                            std::vector<std::string>& keys);
/// The name of an architecture in configs.
std::string name_of(LearnedArchitecture architecture);

}  // namespace vitrine
