// Llama Scope: hyperparams.json and checkpoints/final.safetensors. JumpReLU with one threshold; the input is scaled by
// √d_model / the data set's average norm. Sources: He et al. 2024; OpenMOSS/Language-Model-SAEs.
#include <cmath>

#include "base/error.h"
#include "features/format.h"

namespace vitrine {
namespace {

/// Keys that say how a dictionary was trained, and of other activations.
// clang-format off
constexpr std::string_view kLlamaScopeKeys[] = {
    "device", "seed", "dtype", "expansion_factor", "exp_name", "exp_series", "exp_result_path",
    "sae_pretrained_name_or_path", "strict_loading", "bias_init_method", "decoder_exactly_fixed_norm",
    "sparsity_include_decoder_norm", "init_decoder_norm", "init_encoder_norm", "init_encoder_with_decoder_transpose",
    "lp", "l1_coefficient", "l1_coefficient_warmup_steps", "top_k", "initial_k", "k_warmup_steps",
    "use_batch_norm_mse", "use_ghost_grads", "tp_size", "ddp_size",
};
// clang-format on

}  // namespace

std::vector<ReadDictionary> read_llama_scope(const DictionaryFolder& folder) {
  const Json object = folder.json("hyperparams.json");
  DictionaryConfig config(object, folder.path("hyperparams.json"));
  const std::string activation = config.text("act_fn").value_or("jumprelu");
  if (activation != "jumprelu") throw Unsupported(config.where(), "act_fn: expected jumprelu, got \"{}\"", activation);
  TensorTable tensors = TensorTable::open(folder.path("checkpoints/final.safetensors"));
  ReadDictionary read;
  Dictionary& d = *read.dictionary;
  d.architecture = "jumprelu";
  d.storage.push_back(tensors.storage());
  d.encoder = tensors.matrix("encoder.weight", Stored::by_rows);
  d.decoder = tensors.matrix("decoder.weight", Stored::transposed, d.d_sae());
  d.encoder_bias = tensors.vector("encoder.bias", d.d_sae());
  if (config.flag("use_decoder_bias").value_or(true)) d.decoder_bias = tensors.vector("decoder.bias", d.d_out());
  if (config.flag("apply_decoder_bias_to_pre_encoder").value_or(false)) {
    d.subtracted = tensors.vector("decoder.bias", d.d_in());
  }
  config.refuse_flag("use_glu_encoder");
  config.refuse_flag("use_gau_encoder");
  tensors.finish();
  d.selection.kind = FeatureSelection::Kind::jump;
  const auto threshold = config.number("jump_relu_threshold", -1e30, 1e30);
  if (!threshold) throw BadCheckpoint(config.where(), "jump_relu_threshold is missing");
  d.selection.thresholds = {static_cast<float>(*threshold)};

  const std::string scaling = config.text("norm_activation").value_or("dataset-wise");
  if (scaling == "dataset-wise") {
    const Json* const norms = config.find("dataset_average_activation_norm");
    if (norms == nullptr || !norms->is_object()) {
      throw BadCheckpoint(config.where(), "dataset_average_activation_norm: the norm of the input is missing");
    }
    DictionaryConfig inner(*norms, config.where());
    const auto norm = inner.number("in", 1e-30, 1e30);
    if (!norm) throw BadCheckpoint(config.where(), "dataset_average_activation_norm.in is missing");
    d.scaling.kind = InputScaling::Kind::factor;
    d.scaling.factor = static_cast<float>(std::sqrt(static_cast<double>(d.d_in())) / *norm);
  } else if (scaling != "inference" && scaling != "none") {
    throw Unsupported(config.where(), "norm_activation: expected dataset-wise, got \"{}\"", scaling);
  }
  config.find("dataset_average_activation_norm");  // without effect if the input is not scaled
  config.check_size("d_model", d.d_in());
  config.check_size("d_sae", d.d_sae());
  read.input = config.required_text("hook_point_in");
  read.output = config.text("hook_point_out").value_or(read.input);
  if (read.input != read.output)
    throw Unsupported(config.where(), "hook_point_out: transcoders of Llama Scope are not read");
  config.finish(kLlamaScopeKeys);
  return {read};
}

}  // namespace vitrine
