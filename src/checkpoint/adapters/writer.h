// Writes adapters, and the gradients of their matrices.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "autograd/gradients.h"
#include "checkpoint/adapters/adapter.h"

namespace vitrine {

/// A matrix of an adapter, as a file holds it.
struct AdapterTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// The dense elements of a matrix of an adapter.
using LowRankValues = std::function<std::vector<float>(const Param& param)>;

/// The tensors of a peft file. `places` must name all maps of the adapter. Throws Unsupported if the maps of one module
/// do not share a matrix A.
std::vector<AdapterTensor> peft_tensors(const Adapter& adapter, std::span<const AdapterPlace> places,
                                        const LowRankValues& values);

/// How a folder describes an adapter.
struct PeftOptions {
  bool rslora = false;  ///< s = alpha / √r instead of alpha / r.
  double dropout = 0;   ///< lora_dropout, which files with parameters have not.
  std::string base{};   ///< base_model_name_or_path
  /// Parameters of the head for labels that the file has in place of the base's (modules_to_save), by our names.
  const std::map<std::string, Param>* saved = nullptr;
};

/// Writes adapter_config.json and adapter_model.safetensors, in float32, into `folder`, which must exist. Throws
/// Unsupported for saved parameters whose names the base does not know, and as FileWriter does.
void write_peft_adapter(const std::string& folder, const Adapter& adapter, const Checkpoint& base,
                        const PeftOptions& options);

/// Writes a GGUF adapter in float32. It has one alpha: factors of the modules that it cannot express are multiplied
/// into B. Throws Unsupported for DoRA and for a base that GGUF has no architecture for, and as FileWriter does.
void write_gguf_adapter(const std::string& path, const Adapter& adapter, const Checkpoint& base);

/// Writes the gradients of the matrices as a .safetensors file under peft's names.
void write_adapter_gradients(const std::string& path, const LoadedAdapter& adapter, const Checkpoint& base,
                             const Gradients& gradients);

}  // namespace vitrine
