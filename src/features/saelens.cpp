// Folders of SAELens: cfg.json and sae_weights.safetensors, of before and after version 6, and of training checkpoints.
// Source: decoderesearch/SAELens, sae_lens/saes and sae_lens/loading/pretrained_sae_loaders.py.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "features/format.h"
#include "features/site_names.h"

namespace vitrine {
namespace {

constexpr std::string_view kConfig = "cfg.json", kWeights = "sae_weights.safetensors";

/// What an architecture has.
struct Architecture {
  std::string_view name;
  FeatureSelection::Kind kind;
  bool is_transcoder = false, has_skip = false;
  bool is_training = false;  // exists as a training checkpoint only
};
using Kind = FeatureSelection::Kind;
constexpr Architecture kArchitectures[] = {
    {"standard", Kind::relu},
    {"gated", Kind::gated},
    {"topk", Kind::topk},
    {"abstopk", Kind::abstopk},
    {"jumprelu", Kind::jump},
    {"batchtopk", Kind::jump, false, false, true},
    {"matryoshka_batchtopk", Kind::jump, false, false, true},
    {"transcoder", Kind::relu, true},
    {"skip_transcoder", Kind::relu, true, true},
    {"jumprelu_transcoder", Kind::jump, true},
    {"jumprelu_skip_transcoder", Kind::jump, true, true},
};

/// Keys that name a dictionary or say how it was trained: those of SAELens 6 and of its older versions. SAELens reads
/// none of them to compute values, except for `dtype`: products are computed in float32 here.
// clang-format off
constexpr std::string_view kSaelensKeys[] = {
    "decoder_init_norm", "k", "use_sparse_activations", "aux_loss_coefficient", "topk_threshold_lr",
    "matryoshka_widths", "use_matryoshka_aux_loss", "l1_coefficient", "lp_norm", "l1_warm_up_steps",
    "jumprelu_init_threshold", "jumprelu_bandwidth", "jumprelu_sparsity_loss_mode", "l0_coefficient",
    "l0_warm_up_steps", "pre_act_loss_coefficient", "jumprelu_tanh_scale", "jumprelu_ste_to_input", "target_l0",
    "model_name", "model_class_name", "hook_eval", "dataset_path", "dataset_trust_remote_code", "streaming",
    "is_dataset_tokenized", "use_chat_formatting", "context_size", "use_cached_activations",
    "cached_activations_path", "from_pretrained_path", "n_batches_in_buffer", "training_tokens",
    "store_batch_size_prompts", "seqpos_slice", "disable_concat_sequences", "sequence_separator_token",
    "activations_mixing_fraction", "device", "llm_device", "act_store_device", "prefetch_llm_batches", "seed",
    "dtype", "prepend_bos", "autocast", "autocast_lm", "compile_llm", "llm_compilation_mode", "compile_sae",
    "sae_compilation_mode", "train_batch_size_tokens", "adam_beta1", "adam_beta2", "lr", "lr_scheduler_name",
    "lr_warm_up_steps", "lr_end", "lr_decay_steps", "n_restart_cycles", "dead_feature_window",
    "feature_sampling_window", "dead_feature_threshold", "n_eval_batches", "eval_batch_size_prompts", "logger",
    "n_checkpoints", "checkpoint_path", "save_final_checkpoint", "output_path", "resume_from_checkpoint", "verbose",
    "sae_lens_version", "sae_lens_training_version", "exclude_special_tokens", "n_batches_for_norm_estimate",
    "neuronpedia_id", "log_to_wandb", "log_activations_store_to_wandb", "log_optimizer_state_to_wandb",
    "log_weights_to_wandb", "wandb_project", "wandb_id", "run_name", "wandb_entity", "wandb_log_frequency",
    "eval_every_n_wandb_logs", "hook_layer", "hook_point_layer", "hook_point_eval", "total_training_tokens",
    "store_batch_size", "train_batch_size", "tokens_per_buffer", "expansion_factor", "b_dec_init_method",
    "use_ghost_grads", "feature_sampling_method", "resample_batches", "feature_reinit_scale",
    "dead_feature_estimation_method", "mse_loss_normalization", "scale_sparsity_penalty_by_decoder_norm",
    "decoder_orthogonal_init", "decoder_heuristic_init", "decoder_heuristic_init_norm",
    "init_encoder_as_decoder_transpose", "normalize_sae_decoder", "finetuning_method", "finetuning_tokens", "resume",
};
// clang-format on

/// What `metadata`, which SAELens leaves to its users, says about the values.
constexpr const char* kOfMetadata[] = {
    "hook_name",    "hook_name_out",    "hook_head_index", "hook_head_index_out",
    "hf_hook_name", "hf_hook_name_out", "model_kwargs",    "model_from_pretrained_kwargs"};

/// The keys of cfg.json, with those of older versions under their new names, and those of `metadata` among the others.
class Config {
 public:
  Config(Json object, const std::string& where) : object_(flat(std::move(object), where)), fields_(object_, where) {}
  DictionaryConfig& fields() { return fields_; }

  std::string architecture() {
    std::string name = fields_.text("architecture").value_or("standard");
    const std::string activation = fields_.text("activation_fn").value_or("relu");
    if (activation == "topk" && name == "standard") return "topk";
    if (activation != "relu" && activation != "topk" && activation != "tanh-relu") {
      throw Unsupported(fields_.where(), "activation_fn: expected relu or topk, got \"{}\"", activation);
    }
    if (activation == "tanh-relu") throw Unsupported(fields_.where(), "activation_fn: tanh-relu is not read");
    return name;
  }

  double k() {
    if (const auto own = fields_.number("k", 1, 1e9)) return *own;
    if (const Json* const arguments = fields_.find("activation_fn_kwargs"); arguments != nullptr) {
      DictionaryConfig inner(*arguments, fields_.where());
      if (arguments->is_object()) {
        const auto own = inner.number("k", 1, 1e9);
        inner.refuse_flag("signed");
        inner.finish({});
        if (own) return *own;
      }
    }
    throw BadCheckpoint(fields_.where(), "k is missing");
  }

  InputScaling::Kind normalization() {
    const Json* const value = fields_.find("normalize_activations");
    if (value == nullptr) return InputScaling::Kind::none;
    if (value->is_boolean()) return value->get<bool>() ? InputScaling::Kind::factor : InputScaling::Kind::none;
    const std::string name = fields_.required_text("normalize_activations");
    if (name == "none") return InputScaling::Kind::none;
    if (name == "layer_norm") return InputScaling::Kind::layer_norm;
    if (name == "constant_norm_rescale") return InputScaling::Kind::constant_norm;
    if (name == "expected_average_only_in") return InputScaling::Kind::factor;
    throw Unsupported(fields_.where(), "normalize_activations: \"{}\" is not read", name);
  }

  /// Refuses what would be other values than those that the model has.
  void check_values() {
    fields_.find("activation_fn_kwargs");  // of top-k only
    const std::string reshape = fields_.text("reshape_activations").value_or("none");
    if (reshape != "none" && reshape != "hook_z") {
      throw Unsupported(fields_.where(), "reshape_activations: expected none or hook_z, got \"{}\"", reshape);
    }
    const auto head = [&](const char* key) { return fields_.whole<std::int64_t>(key, 0, 1 << 20); };
    if (const auto out = head("hook_head_index_out"); out && out != head("hook_head_index")) {
      throw Unsupported(fields_.where(), "hook_head_index_out: expected that of hook_head_index, got {}", *out);
    }
    check_processing("model_kwargs");
    check_processing("model_from_pretrained_kwargs");
  }

  /// Whether TransformerLens has removed the mean of all that is written to the stream, of which the dictionary reads.
  bool is_centered() {
    const auto asks = [&](const char* key) {
      const Json* const arguments = fields_.find(key);
      if (arguments == nullptr || !arguments->is_object()) return false;
      return DictionaryConfig(*arguments, fields_.where()).flag("center_writing_weights").value_or(false);
    };
    return asks("model_kwargs") || asks("model_from_pretrained_kwargs");
  }

  /// `hf_hook_name` wins: it is exact where the other is a guess.
  std::string site(std::string_view name, std::string_view hf_name) {
    if (const auto module = fields_.text(hf_name)) {
      if (const auto known = site_of_module(*module)) return *known;
      throw Unsupported(fields_.where(), "{}: the module \"{}\" is not known; give @SITE", hf_name, *module);
    }
    return fields_.text(name).value_or("");
  }

 private:
  /// TransformerLens changes weights on request, and with them the values that a dictionary reads: heads without the
  /// bias of v, outputs of norms without its weight.
  void check_processing(const char* key) {
    const Json* const arguments = fields_.find(key);
    if (arguments == nullptr || !arguments->is_object()) return;
    DictionaryConfig inner(*arguments, fields_.where());
    inner.refuse_flag("fold_value_biases");
    inner.refuse_flag("refactor_factored_attn_matrices");
    if (site("hook_name", "hf_hook_name").ends_with("hook_out")) inner.refuse_flag("fold_ln");
  }

  static Json flat(Json object, const std::string& where) {
    const auto rename = [&](const char* from, const char* to) {
      if (object.contains(from) && !object.contains(to)) object[to] = object[from];
    };
    if (object.contains("metadata")) {
      const Json metadata = object["metadata"];
      if (!metadata.is_object() && !metadata.is_null()) throw BadCheckpoint(where, "metadata: expected an object");
      for (const char* const key : kOfMetadata) {
        if (!object.contains(key) && metadata.contains(key)) object[key] = metadata[key];
      }
      object.erase("metadata");
    }
    rename("hook_point", "hook_name");
    rename("hook_point_head_index", "hook_head_index");
    rename("activation_fn_str", "activation_fn");
    for (const char* const old : {"hook_point", "hook_point_head_index", "activation_fn_str"}) object.erase(old);
    return object;
  }

  Json object_;
  DictionaryConfig fields_;
};

const Architecture& architecture_of(const std::string& name, const std::string& where) {
  const auto* const found = std::ranges::find(kArchitectures, name, &Architecture::name);
  if (found != std::end(kArchitectures)) return *found;
  throw Unsupported(where, "the architecture \"{}\" is not known", name);
}

void read_selection(Config& config, const Architecture& own, TensorTable& tensors, Dictionary& d) {
  FeatureSelection& selection = d.selection;
  selection.kind = own.kind;
  const std::int64_t n = d.d_sae();
  if (own.kind == Kind::topk || own.kind == Kind::abstopk) {
    selection.k = static_cast<std::int64_t>(config.k());
  }
  if (config.fields().flag("rescale_acts_by_decoder_norm").value_or(own.is_training)) {
    if (selection.k == 0 && !own.is_training) {
      throw Unsupported(tensors.where(), "rescale_acts_by_decoder_norm: not of the architecture {}", own.name);
    }
    selection.norms = norms_of(d.decoder, tensors.where());
    d.decoder_factors = inverse(selection.norms);
  }
  if (own.kind != Kind::jump) return;
  const bool is_log = tensors.has("log_threshold");
  const std::string name = tensors.one_of({"threshold", "log_threshold", "topk_threshold"});
  selection.thresholds = tensors.values(name, n);
  for (float& value : selection.thresholds) value = is_log ? static_cast<float>(math::exp(value)) : value;
}

void read_scaling_factor(Config& config, TensorTable& tensors, Dictionary& d) {
  const std::string name = tensors.one_of({"scaling_factor", "finetuning_scaling_factor"});
  if (!tensors.has(name)) return;
  std::vector<float> factors = tensors.values(name, d.d_sae());
  if (std::ranges::all_of(factors, [](float f) { return std::abs(f - 1) <= 1e-5f; })) return;
  if (!config.fields().flag("finetuning_scaling_factor").value_or(false)) {
    throw BadCheckpoint(tensors.where(), "{}: expected all 1, since finetuning_scaling_factor is not true", name);
  }
  factors.resize(static_cast<std::size_t>(d.d_sae()), factors.front());
  for (std::size_t i = 0; i < factors.size(); ++i) {
    factors[i] *= d.decoder_factors.empty() ? 1.0f : d.decoder_factors[i];
  }
  d.decoder_factors = std::move(factors);
}

/// The factor of `expected_average_only_in`, which training keeps in a file of its own.
float activation_factor(const DictionaryFolder& folder) {
  constexpr const char* kScaler = "activation_scaler.json";
  if (folder.has(kScaler)) {
    const Json object = folder.json(kScaler);
    DictionaryConfig scaler(object, folder.path(kScaler));
    if (scaler.flag("has_whitening").value_or(false)) throw Unsupported(scaler.where(), "whitening is not read");
    const auto factor = scaler.number("scaling_factor", 1e-30, 1e30);
    scaler.finish({});
    if (factor) return static_cast<float>(*factor);
  }
  throw BadCheckpoint(folder.path(std::string(kConfig)),
                      "normalize_activations: expected_average_only_in needs the factor of {}, which is missing",
                      kScaler);
}

void read_encoder(TensorTable& tensors, Kind kind, Dictionary& d) {
  d.encoder = tensors.matrix("W_enc", Stored::transposed);
  d.decoder = tensors.matrix("W_dec", Stored::by_rows, d.d_sae());
  d.decoder_bias = tensors.vector("b_dec", d.d_out());
  if (kind != Kind::gated) {
    d.encoder_bias = tensors.vector("b_enc", d.d_sae());
    return;
  }
  d.encoder_bias = tensors.vector("b_mag", d.d_sae());
  d.selection.gate_bias = tensors.vector("b_gate", d.d_sae());
  d.selection.gains = tensors.values("r_mag", d.d_sae());
  d.selection.gains.resize(static_cast<std::size_t>(d.d_sae()), d.selection.gains.front());
  for (float& gain : d.selection.gains) gain = static_cast<float>(math::exp(gain));
  tensors.ignore({"b_enc"});
}

void check_sizes(DictionaryConfig& config, const Dictionary& d) {
  config.check_size("d_in", d.d_in());
  config.check_size("d_sae", d.d_sae());
  config.check_size("d_out", d.d_out());
}

}  // namespace

std::vector<ReadDictionary> read_saelens(const DictionaryFolder& folder) {
  Config config(folder.json(std::string(kConfig)), folder.path(std::string(kConfig)));
  const Architecture& own = architecture_of(config.architecture(), config.fields().where());
  TensorTable tensors = TensorTable::open(folder.path(std::string(kWeights)));
  ReadDictionary read;
  Dictionary& d = *read.dictionary;
  d.architecture = own.name;
  d.storage.push_back(tensors.storage());
  read_encoder(tensors, own.kind, d);
  check_sizes(config.fields(), d);
  read.input = config.site("hook_name", "hf_hook_name");
  read.output = config.site("hook_name_out", "hf_hook_name_out");
  const bool is_transcoder = own.is_transcoder || (!read.output.empty() && read.output != read.input);
  if (!is_transcoder) read.output = read.input;
  if (!is_transcoder && config.fields().flag("apply_b_dec_to_input").value_or(true)) {
    d.subtracted = tensors.vector("b_dec", d.d_in());
  }
  if (own.has_skip) d.skip = tensors.matrix("W_skip", Stored::by_rows, d.d_out(), d.d_in());
  d.scaling.kind = config.normalization();
  d.scaling.is_undone = !is_transcoder;
  d.scaling.is_centered = config.is_centered();
  if (d.scaling.kind == InputScaling::Kind::factor) d.scaling.factor = activation_factor(folder);
  read_selection(config, own, tensors, d);
  read_scaling_factor(config, tensors, d);
  tensors.finish();
  d.head = config.fields().whole<std::int64_t>("hook_head_index", 0, 1 << 20);
  config.check_values();
  // Of other architectures, or without the tensor that they are about.
  config.fields().ignore({"finetuning_scaling_factor", "apply_b_dec_to_input"});
  config.fields().finish(kSaelensKeys);
  return {read};
}

}  // namespace vitrine
