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
  if (const auto layer = trainer.whole<std::int64_t>("layer", 0, 1 << 20)) {
    read.input = read.output = "blocks." + std::to_string(*layer) + ".hook_resid_post";
  }
  return {read};
}

}  // namespace vitrine
