// Folders of dictionary_learning: config.json and the weights as ae.safetensors, with the names of the state dict.
// Source: saprmarks/dictionary_learning 0.1, dictionary.py and trainers.
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "features/format.h"

namespace vitrine {
namespace {

using Kind = FeatureSelection::Kind;

struct DictClass {
  std::string_view name, architecture;
  Kind kind;
  std::string_view subtracted, decoder_bias, encoder_bias;
  bool has_matrices = false;  // W_enc and W_dec, not encoder.weight and decoder.weight
};
constexpr DictClass kClasses[] = {
    {"AutoEncoder", "standard", Kind::relu, "bias", "bias", "encoder.bias"},
    {"AutoEncoderNew", "standard", Kind::relu, "", "decoder.bias", "encoder.bias"},
    {"GatedAutoEncoder", "gated", Kind::gated, "decoder_bias", "decoder_bias", "mag_bias"},
    {"JumpReluAutoEncoder", "jumprelu", Kind::jump, "", "b_dec", "b_enc", true},
    {"AutoEncoderTopK", "topk", Kind::topk, "b_dec", "b_dec", "encoder.bias"},
    {"BatchTopKSAE", "batchtopk", Kind::jump, "b_dec", "b_dec", "encoder.bias"},
    {"MatryoshkaBatchTopKSAE", "matryoshka_batchtopk", Kind::jump, "b_dec", "b_dec", "b_enc", true},
};

/// Keys of `trainer` that name a dictionary or say how it was trained, and of other classes. The biases of a file are
/// those of activations that are not scaled by `norm_factor`.
// clang-format off
constexpr std::string_view kTrainerKeys[] = {
    "trainer_class", "wandb_name", "lm_name", "device", "seed", "steps", "lr", "warmup_steps", "decay_start",
    "sparsity_warmup_steps", "resample_steps", "norm_factor", "l1_penalty", "l0_penalty", "sparsity_penalty",
    "sparsity_function", "sparsity_loss_queue_length", "sparsity_queue_length", "sparsity_coefficient",
    "adaptive_sparsity_penalty", "activation_queue_length", "target_l0", "bandwidth", "p_start", "p_end",
    "anneal_start", "n_sparsity_updates", "steps_before_annealing", "gp_reg_coeff", "lambda_warm_steps", "auxk_alpha",
    "threshold_beta", "threshold_start_step", "top_k_aux", "group_fractions", "group_sizes", "group_weights",
    "weights_temperature", "k",
};
// clang-format on
/// Keys of `buffer`: the activations of the training.
// clang-format off
constexpr std::string_view kBufferKeys[] = {
    "d_submodule", "ctx_len", "n_ctxs", "refresh_batch_size", "out_batch_size", "device", "layer",
};
// clang-format on

/// The site, if the activations are those after a layer; else "".
std::string trained_site(DictionaryConfig& config, DictionaryConfig& trainer) {
  const std::string module = trainer.text("submodule_name").value_or("resid_post");
  std::string side = "out";
  if (const Json* const object = config.find("buffer"); object != nullptr) {
    if (!object->is_object()) throw BadCheckpoint(config.where(), "buffer: expected an object");
    DictionaryConfig buffer(*object, config.where());
    side = buffer.text("io").value_or(side);
    buffer.finish(kBufferKeys);
  }
  const auto layer = trainer.whole<std::int64_t>("layer", 0, 1 << 20);
  if (!layer || side != "out" || !module.starts_with("resid_post")) return "";
  return "blocks." + std::to_string(*layer) + ".hook_resid_post";
}

const DictClass& class_of(const std::string& name, const std::string& where) {
  for (const DictClass& own : kClasses) {
    if (own.name == name) return own;
  }
  throw Unsupported(where, "trainer.dict_class: the class \"{}\" is not known", name);
}

}  // namespace

std::vector<ReadDictionary> read_dictionary_learning(const DictionaryFolder& folder) {
  const Json object = folder.json("config.json");
  DictionaryConfig config(object, folder.path("config.json"));
  const Json* const trainer_object = config.find("trainer");
  if (trainer_object == nullptr || !trainer_object->is_object()) {
    throw BadCheckpoint(config.where(), "trainer: expected an object");
  }
  DictionaryConfig trainer(*trainer_object, config.where());
  const DictClass& own = class_of(trainer.required_text("dict_class"), config.where());
  TensorTable tensors = TensorTable::open(folder.path("ae.safetensors"));
  ReadDictionary read;
  Dictionary& d = *read.dictionary;
  d.architecture = own.architecture;
  d.storage.push_back(tensors.storage());
  d.encoder = own.has_matrices ? tensors.matrix("W_enc", Stored::transposed)
                               : tensors.matrix("encoder.weight", Stored::by_rows);
  d.decoder = own.has_matrices ? tensors.matrix("W_dec", Stored::by_rows, d.d_sae())
                               : tensors.matrix("decoder.weight", Stored::transposed, d.d_sae());
  d.encoder_bias = tensors.vector(own.encoder_bias, d.d_sae());
  d.decoder_bias = tensors.vector(own.decoder_bias, d.d_out());
  if (!own.subtracted.empty()) d.subtracted = tensors.vector(own.subtracted, d.d_in());
  d.selection.kind = own.kind;
  if (own.kind == Kind::topk) d.selection.k = trainer.size("k");
  if (own.kind == Kind::jump) d.selection.thresholds = tensors.values("threshold", d.d_sae());
  if (own.kind == Kind::gated) {
    d.selection.gate_bias = tensors.vector("gate_bias", d.d_sae());
    d.selection.gains = tensors.values("r_mag", d.d_sae());
    d.selection.gains.resize(static_cast<std::size_t>(d.d_sae()), d.selection.gains.front());
    for (float& gain : d.selection.gains) gain = static_cast<float>(math::exp(gain));
  }
  tensors.ignore({"k", "group_sizes"});
  if (own.kind == Kind::topk) tensors.ignore({"threshold"});  // encode() chooses k
  tensors.finish();
  trainer.check_size("activation_dim", d.d_in());
  trainer.check_size("dict_size", d.d_sae());
  read.input = read.output = trained_site(config, trainer);
  trainer.finish(kTrainerKeys);
  config.finish({});
  return {read};
}

}  // namespace vitrine
