// Files of low-rank adapters, as they are stored: peft's folders, and GGUF files of llama.cpp.
//
//   peft    adapter_config.json, adapter_model.safetensors: base_model.model.MODULE.lora_A.weight [r, in],
//           .lora_B.weight [out, r], .lora_magnitude_vector [out] (DoRA). s = alpha / r, or alpha / √r (rsLoRA).
//           Of a parameter of all experts (target_parameters) MODULE.lora_A.weight [E · r, in], .lora_B.weight
//           [out, r · E], whose columns are those of each expert in turn. PEFT wraps the parameters of a module one
//           after another, and all but the last have MODULE.base_layer, .base_layer.base_layer … instead.
//           MODULE.weight and .bias of modules_to_save replace the base's: the head of a classifier
//   GGUF    general.type "adapter": NAME.lora_a [r, in], NAME.lora_b [out, r]; with experts [expert, r, in] and
//           [expert, out, r]. s = adapter.lora.alpha / r
//
// Sources: huggingface/peft, utils/save_and_load.py, tuners/lora/config.py, tuners/lora/layer.py (ParamWrapper);
// ggml-org/llama.cpp, src/llama-adapter.cpp, convert_lora_to_gguf.py.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"

namespace vitrine {

/// The matrices of one module, under its name in the file.
struct StoredLowRank {
  StoredTensor a, b;
  std::optional<StoredTensor> magnitudes;  ///< DoRA.
  std::int64_t rank = 0;
  double alpha = 0;
  double scale = 0;           ///< s
  bool is_parameter = false;  ///< Of all experts: A and B have the ranks of all of them.
};

struct AdapterFile {
  std::string path{};          ///< As it was given, for messages.
  std::string format{};        ///< "PEFT" or "GGUF"
  std::string architecture{};  ///< Of a GGUF file.
  /// `model.layers.0.mlp.up_proj`, `model.layers.0.mlp.experts.gate_up_proj` (a parameter), `blk.0.ffn_up.weight`
  std::map<std::string, StoredLowRank> modules{};
  std::map<std::string, StoredTensor> copies{};  ///< Weights of the base that the file repeats, by their names there.
  /// Tensors that replace those of the base (modules_to_save), by their full names.
  std::map<std::string, StoredTensor> saved{};
  std::optional<std::vector<std::int64_t>> layers{};  ///< The only ones that it may change (layers_to_transform).
  bool rslora = false, dora = false;
  std::vector<std::shared_ptr<const void>> storage{};  ///< Owns the memory of the tensors.
};

/// Reads a folder or a file. Every number is finite. Throws BadInput for a path that is not an adapter, BadCheckpoint
/// for a matrix without its other half and for ranks and shapes that contradict each other, Unsupported, naming it, for
/// anything in the file that would change the model in another way.
AdapterFile open_adapter(const std::string& path);

/// Opens a GGUF adapter.
AdapterFile open_gguf_adapter(const std::string& path);

/// Parameters of experts in the order in which PEFT wraps those of a module: transformers' order.
inline constexpr std::array<std::string_view, 2> kExpertParameters = {"gate_up_proj", "down_proj"};
/// What PEFT puts after the name of a module for each wrapper around it.
inline constexpr std::string_view kBaseLayer = ".base_layer";

/// Checks one module: the two halves, their shapes and that all numbers are finite; sets its rank.
void check_low_rank(const std::string& where, const std::string& name, StoredLowRank& module);

}  // namespace vitrine
