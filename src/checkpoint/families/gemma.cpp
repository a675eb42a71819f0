// Gemma 1. Sources: Gemma Team 2024a; transformers, models/gemma; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family gemma_family() {
  Family family = decoder_family("gemma", "GemmaForCausalLM", [](ConfigReader& c) {
    // "gelu" in the published files is the tanh form, with which the model was trained (gemma_pytorch, gemma/model.py).
    std::string act = c.text_or("hidden_act", "gelu_pytorch_tanh");
    if (act == "gelu") act = "gelu_pytorch_tanh";
    const std::string newer = c.text_or("hidden_activation", act);
    if (newer != act && newer != "gelu") {
      throw Unsupported(c.where(), "hidden_act and hidden_activation contradict each other: {} and {}", act, newer);
    }
    ModelConfig model = read_gemma_decoder(c, {.max_seq_len = 8192});
    for (DenseConfig* ffn : every<DenseConfig>(model.blocks)) ffn->activation = activation_named(c, "hidden_act", act);
    return model;
  });
  family.tasks = decoder_classes(0);
  return family;
}

}  // namespace vitrine
