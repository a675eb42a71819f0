// The architecture of GGUF files whose activation is xIELU. Its four numbers are parameters here, and in files lists of
// keys. Sources: as in architecture.h.
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/misread.h"

namespace vitrine {
namespace {

std::vector<TensorRule> xielu_tensors() {
  std::vector<TensorRule> rules = {{"blk.{l}.xielu.alpha_p", {"blocks.{l}.mlp.xielu_alpha_p.weight"}},
                                   {"blk.{l}.xielu.alpha_n", {"blocks.{l}.mlp.xielu_alpha_n.weight"}},
                                   {"blk.{l}.xielu.beta", {"blocks.{l}.mlp.xielu_beta.weight"}},
                                   {"blk.{l}.xielu.eps", {"blocks.{l}.mlp.xielu_eps.weight"}}};
  for (TensorRule& rule : rules) rule.has_ending = false;
  return rules;
}

/// The family's default is a scaling.
void complete_xielu(Json& config, const StoredTensors&) {
  if (config.contains("rope_scaling")) return;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", config["rope_theta"]}};
  config.erase("rope_theta");
}

/// llama.cpp has no head that is the embedding.
std::string_view xielu_misread(const ModelConfig& config) {
  return config.head.tied ? "the head, which is the embedding" : all_biases_but_of_qkv(config);
}

}  // namespace

GgufArchitecture xielu_architecture() {
  return {.name = "apertus",
          .family = "apertus",
          .keys = rms_and_rope_keys(),
          .numbers_of_layers = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"},
          .tensors = xielu_tensors(),
          .complete = complete_xielu,
          .misread = xielu_misread};
}

}  // namespace vitrine
