#include "train/dictionary/dictionary_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/math.h"
#include "train/config_section.h"

namespace vitrine {
namespace {

constexpr double kMaxOption = 1e9;
constexpr std::int64_t kMaxOptionSteps = std::int64_t{1} << 40, kMaxFeatures = std::int64_t{1} << 28;
const std::vector<std::pair<std::string, LearnedArchitecture>> kLearnedArchitectures = {
    {"standard", LearnedArchitecture::standard},
    {"topk", LearnedArchitecture::topk},
    {"batchtopk", LearnedArchitecture::batchtopk},
    {"jumprelu", LearnedArchitecture::jumprelu}};

/// Refuses the keys of other architectures.
void refuse_others(ConfigSection& section, LearnedArchitecture own) {
  const auto refuse = [&](bool applies, std::initializer_list<const char*> keys, const char* of) {
    for (const char* key : keys) {
      if (!applies) section.refuse(key, std::string("it applies to ") + of + " only");
    }
  };
  refuse(has_top(own), {"k", "rescale_acts_by_decoder_norm", "aux_loss_coefficient"}, "topk and batchtopk");
  refuse(own == LearnedArchitecture::batchtopk, {"topk_threshold_lr"}, "batchtopk");
  refuse(own == LearnedArchitecture::standard, {"l1_coefficient", "l1_warm_up_steps", "lp_norm"}, "standard");
  refuse(own == LearnedArchitecture::jumprelu,
         {"l0_coefficient", "l0_warm_up_steps", "jumprelu_init_threshold", "jumprelu_bandwidth",
          "jumprelu_sparsity_loss_mode", "jumprelu_tanh_scale", "jumprelu_ste_to_input", "pre_act_loss_coefficient",
          "target_l0"},
         "jumprelu");
}

DictionaryShape read_dictionary_shape(ConfigSection& section, bool is_transcoder) {
  using Kind = InputScaling::Kind;
  DictionaryShape shape;
  shape.architecture = section.choice<LearnedArchitecture>("architecture", kLearnedArchitectures);
  refuse_others(section, shape.architecture);
  shape.start = section.text("start", "");
  shape.d_sae = shape.start.empty() ? section.integer("d_sae", 1) : section.integer("d_sae", 0, 1);
  if (shape.d_sae > kMaxFeatures) section.fail("d_sae", "there are too many features");
  if (!shape.start.empty()) section.refuse("decoder_init_norm", "start already gives the weights");
  shape.k = section.number("k", shape.k, 1e-6, kMaxOption);
  if (shape.architecture == LearnedArchitecture::topk && (shape.k < 1 || shape.k != std::floor(shape.k))) {
    section.fail("k", "expected a whole number from 1");
  }
  if (is_transcoder) section.refuse("apply_b_dec_to_input", "a transcoder's bias has the width of its output");
  shape.subtracts_bias = section.flag("apply_b_dec_to_input", true) && !is_transcoder;
  shape.rescales = section.flag("rescale_acts_by_decoder_norm", true) && has_top(shape.architecture);
  shape.normalization = section.choice<Kind>("normalize_activations", {{"none", Kind::none},
                                                                       {"expected_average_only_in", Kind::factor},
                                                                       {"layer_norm", Kind::layer_norm},
                                                                       {"constant_norm_rescale", Kind::constant_norm}});
  shape.decoder_init_norm = section.number("decoder_init_norm", shape.decoder_init_norm, 0, kMaxOption);
  return shape;
}

Coefficient read_coefficient(ConfigSection& section, const std::string& name) {
  Coefficient coefficient;
  coefficient.value = section.number(name + "_coefficient", coefficient.value, 0, kMaxOption);
  coefficient.warm_up_steps = section.integer(name + "_warm_up_steps", 0, 0, kMaxOptionSteps);
  return coefficient;
}

L0Options read_l0_options(ConfigSection& section) {
  using Mode = L0Options::Mode;
  L0Options l0;
  l0.coefficient = read_coefficient(section, "l0");
  l0.init_threshold = section.number("jumprelu_init_threshold", l0.init_threshold, 0, kMaxOption);
  l0.bandwidth = section.number("jumprelu_bandwidth", l0.bandwidth, 1e-9, kMaxOption);
  l0.mode = section.choice<Mode>("jumprelu_sparsity_loss_mode",
                                 {{"step", Mode::step}, {"tanh", Mode::tanh}, {"quadratic", Mode::quadratic}});
  if (l0.mode != Mode::tanh) section.refuse("jumprelu_tanh_scale", "it applies to the mode tanh only");
  l0.tanh_scale = section.number("jumprelu_tanh_scale", l0.tanh_scale, 1e-9, kMaxOption);
  l0.reaches_input = section.flag("jumprelu_ste_to_input", false);
  if (section.has("pre_act_loss_coefficient")) {
    l0.pre_act = section.number("pre_act_loss_coefficient", 0, 0, kMaxOption);
  }
  if (l0.mode != Mode::quadratic) section.refuse("target_l0", "it applies to the mode quadratic only");
  if (l0.mode == Mode::quadratic && !section.has("target_l0")) section.fail("target_l0", "the key is missing");
  l0.target = section.number("target_l0", 1, 1e-9, kMaxOption);
  return l0;
}

DictionaryRate read_dictionary_rate(ConfigSection& section, bool has_schedule) {
  using Kind = DictionaryRate::Kind;
  DictionaryRate rate;
  for (const char* key :
       {"lr", "lr_scheduler_name", "lr_warm_up_steps", "lr_decay_steps", "lr_end", "n_restart_cycles"}) {
    if (has_schedule) section.refuse(key, "[schedule] already gives the learning rate");
  }
  rate.kind = section.choice<Kind>("lr_scheduler_name", {{"constant", Kind::constant},
                                                         {"cosineannealing", Kind::cosine},
                                                         {"cosineannealingwarmrestarts", Kind::restarts}});
  rate.peak = section.number("lr", rate.peak, 0, kMaxOption);
  rate.warm_up_steps = section.integer("lr_warm_up_steps", 0, 0, kMaxOptionSteps);
  rate.decay_steps = section.integer("lr_decay_steps", 0, 0, kMaxOptionSteps);
  if (rate.kind == Kind::constant) section.refuse("lr_end", "it has no effect on a constant rate");
  rate.end = section.number("lr_end", rate.peak / 10, 0, kMaxOption);
  if (rate.kind == Kind::constant) rate.end = rate.peak;
  if (rate.kind != Kind::restarts) section.refuse("n_restart_cycles", "it applies to cosineannealingwarmrestarts only");
  rate.cycles = section.integer("n_restart_cycles", 1, 1, kMaxOptionSteps);
  if (rate.decay_steps > 0 && rate.end == 0) section.fail("lr_decay_steps", "it has no effect, since lr_end is 0");
  return rate;
}

ActivationOptions read_activation_options(ConfigSection& section, bool streams) {
  ActivationOptions options;
  options.is_shuffled = section.flag("shuffle", true);
  if (!streams) {
    for (const char* key : {"context", "buffer", "mix_fraction", "store_batch_size_prompts"}) {
      section.refuse(key, "it has no effect on data.activations");
    }
  } else if (!options.is_shuffled) {
    for (const char* key : {"buffer", "mix_fraction"}) section.refuse(key, "it has no effect with shuffle = false");
  }
  options.context = section.integer("context", options.context, 1, kMaxOptionSteps);
  options.sequences = section.integer("store_batch_size_prompts", options.sequences, 1, 1 << 20);
  options.buffer = section.integer("buffer", 20 * options.sequences * options.context, 1, kMaxOptionSteps);
  options.mix_fraction = section.number("mix_fraction", options.mix_fraction, 0, 0.999);
  return options;
}

LearnedOptions read_learned_options(ConfigSection& section, bool streams, bool has_schedule) {
  using Kind = InputScaling::Kind;
  LearnedOptions own;
  own.site = streams ? section.text("site") : section.text("site", "");
  own.site_out = section.text("site_out", "");
  own.shape = read_dictionary_shape(section, !own.site_out.empty());
  own.aux_loss_coefficient = section.number("aux_loss_coefficient", own.aux_loss_coefficient, 0, kMaxOption);
  own.topk_threshold_lr = section.number("topk_threshold_lr", own.topk_threshold_lr, 0, 1);
  const bool is_scaled_by_row =
      own.shape.normalization == Kind::layer_norm || own.shape.normalization == Kind::constant_norm;
  if (has_top(own.shape.architecture) && is_scaled_by_row && own.aux_loss_coefficient > 0) {
    section.fail("normalize_activations",
                 "the loss of dead features is not defined for it: set aux_loss_coefficient = 0");
  }
  if (own.shape.normalization != Kind::factor) {
    section.refuse("n_batches_for_norm_estimate", "it applies to normalize_activations = \"expected_average_only_in\"");
  }
  own.norm_batches = section.integer("n_batches_for_norm_estimate", own.norm_batches, 1, kMaxOptionSteps);
  own.l1.coefficient = read_coefficient(section, "l1");
  own.l1.lp_norm = section.number("lp_norm", 1, 1e-3, 1e3);
  own.l0 = read_l0_options(section);
  own.dead_feature_window = section.integer("dead_feature_window", own.dead_feature_window, 0, kMaxOptionSteps);
  own.rate = read_dictionary_rate(section, has_schedule);
  return own;
}

/// Notes what a resumed run must not change, and what changes its bits.
void add_words(const LearnedOptions& o, const ActivationOptions& a, const std::string& prefix,
               DictionaryTraining& training) {
  const Json fixed = {{"site", o.site},
                      {"site_out", o.site_out},
                      {"architecture", name_of(o.shape.architecture)},
                      {"d_sae", o.shape.d_sae},
                      {"k", o.shape.k},
                      {"start", o.shape.start},
                      {"shuffle", a.is_shuffled},
                      {"context", a.context},
                      {"buffer", a.buffer},
                      {"mix_fraction", a.mix_fraction},
                      {"store_batch_size_prompts", a.sequences}};
  const Json free = {{"apply_b_dec_to_input", o.shape.subtracts_bias},
                     {"rescale_acts_by_decoder_norm", o.shape.rescales},
                     {"normalize_activations", static_cast<int>(o.shape.normalization)},
                     {"aux_loss_coefficient", o.aux_loss_coefficient},
                     {"topk_threshold_lr", o.topk_threshold_lr},
                     {"dead_feature_window", o.dead_feature_window},
                     {"l1_coefficient", o.l1.coefficient.value},
                     {"l1_warm_up_steps", o.l1.coefficient.warm_up_steps},
                     {"lp_norm", o.l1.lp_norm},
                     {"l0_coefficient", o.l0.coefficient.value},
                     {"l0_warm_up_steps", o.l0.coefficient.warm_up_steps},
                     {"jumprelu_sparsity_loss_mode", static_cast<int>(o.l0.mode)},
                     {"jumprelu_bandwidth", o.l0.bandwidth},
                     {"jumprelu_tanh_scale", o.l0.tanh_scale},
                     {"jumprelu_ste_to_input", o.l0.reaches_input},
                     {"pre_act_loss_coefficient", o.l0.pre_act ? Json(*o.l0.pre_act) : Json()},
                     {"target_l0", o.l0.target},
                     {"lr_scheduler_name", static_cast<int>(o.rate.kind)},
                     {"lr", o.rate.peak},
                     {"lr_end", o.rate.end},
                     {"lr_warm_up_steps", o.rate.warm_up_steps},
                     {"lr_decay_steps", o.rate.decay_steps},
                     {"n_restart_cycles", o.rate.cycles}};
  for (const auto& [key, value] : fixed.items()) training.fixed[prefix + key] = value;
  for (const auto& [key, value] : free.items()) training.free[prefix + key] = value;
}

/// The tables of [[sae]], each as a file of its own; that of [sae].
std::vector<TomlFile> dictionary_tables(const TomlFile& file) {
  const Json& value = file.values.at("sae");
  if (!value.is_array()) return {file};
  std::vector<TomlFile> tables;
  for (const Json& table : value) tables.push_back({{{"sae", table}}, file.lines});
  return tables;
}

}  // namespace

std::string name_of(LearnedArchitecture architecture) {
  return std::ranges::find(kLearnedArchitectures, architecture, &std::pair<std::string, LearnedArchitecture>::second)
      ->first;
}

double learning_rate(const DictionaryRate& rate, std::int64_t step, std::int64_t steps) {
  using Kind = DictionaryRate::Kind;
  if (step < rate.warm_up_steps) {
    return rate.peak * static_cast<double>(step + 1) / static_cast<double>(rate.warm_up_steps);
  }
  const std::int64_t decay_begin = steps - rate.decay_steps;
  if (step >= decay_begin && rate.decay_steps > 0) {
    const double part = static_cast<double>(step - decay_begin) / static_cast<double>(rate.decay_steps);
    return rate.end * (1 - std::min(part, 1.0));
  }
  if (rate.kind == Kind::constant) return rate.peak;
  const std::int64_t n = std::max<std::int64_t>(decay_begin - rate.warm_up_steps, 1);
  const std::int64_t cycle = rate.kind == Kind::restarts ? std::max<std::int64_t>(n / rate.cycles, 1) : n;
  const std::int64_t at = step - rate.warm_up_steps;
  const double part = static_cast<double>(rate.kind == Kind::restarts ? at % cycle : at) / static_cast<double>(cycle);
  return rate.end + (rate.peak - rate.end) * (1 + math::cos(std::numbers::pi * part)) / 2;
}

DictionaryTraining read_dictionary_training(const TomlFile& file, const std::string& path, bool streams,
                                            std::vector<std::string>& keys) {
  DictionaryTraining training;
  training.has_schedule = file.values.contains("schedule");
  for (const TomlFile& table : dictionary_tables(file)) {
    ConfigSection section(table, path, "sae");
    LearnedOptions own = read_learned_options(section, streams, training.has_schedule);
    const ActivationOptions activations = read_activation_options(section, streams);
    section.finish();
    if (training.dictionaries.empty()) {
      training.activations = activations;
      for (const std::string& key : section.known()) keys.push_back("sae." + key);
    }
    if (!(activations == training.activations)) {
      throw BadInput(path,
                     "[[sae]]: shuffle, context, buffer, mix_fraction and store_batch_size_prompts are the same in all "
                     "tables, which learn from the same rows");
    }
    add_words(own, activations, fmt::format("sae[{}].", training.dictionaries.size()), training);
    training.dictionaries.push_back(std::move(own));
  }
  if (training.dictionaries.empty()) throw BadInput(path, "[[sae]]: expected at least one table");
  for (const LearnedOptions& a : training.dictionaries) {
    const auto is_same = [&](const LearnedOptions& b) {
      return (a.site_out.empty() ? a.site : a.site_out) == (b.site_out.empty() ? b.site : b.site_out);
    };
    if (std::ranges::count_if(training.dictionaries, is_same) > 1) {
      throw BadInput(path, "[[sae]]: two tables reconstruct {}", a.site_out.empty() ? a.site : a.site_out);
    }
  }
  return training;
}

}  // namespace vitrine
