// Binds the tensors of a checkpoint of any format to the parameters of a model.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/family.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"

namespace vitrine {

/// All tensors of a checkpoint, in one file or several.
struct StoredTensors {
  std::map<std::string, StoredTensor> all;
  std::vector<std::shared_ptr<const void>> storage;        ///< Owns the memory of the tensors.
  std::string where;                                       ///< Names the checkpoint in messages.
  std::vector<std::string> allowed{};                      ///< LoadOptions::allowed_tensors
  std::vector<std::shared_ptr<const MappedFile>> files{};  ///< Where the tensors are from; they are in `storage`, too.
  bool without_values = false;                             ///< LoadOptions::without_values

  void add(const std::shared_ptr<const MappedFile>& file) {
    storage.push_back(file);
    files.push_back(file);
  }
};

/// The name in the file of a tensor that is known as `name`.
inline const std::string& name_in_file(const std::string& name, const StoredTensor& tensor) {
  return tensor.name.empty() ? name : tensor.name;
}

/// A checkpoint whose parameters are views of the tensors, assigned by the family's table. Throws BadCheckpoint if a
/// tensor is missing, unknown, or of another shape than the config requires; Unsupported for a type that the engine
/// cannot compute with.
/// The result keeps the tensors in `stored`.
Checkpoint bind_tensors(const Family& family, ModelConfig config, StoredTensors tensors,
                        PlaceholderTokens placeholders = {});

/// The same for tensors in the form of a Hugging Face folder, with its config.json, of which only the text half is
/// read; `where` names the config in messages. Throws as text_half(), family_of() and read_model_config() do, too.
Checkpoint bind_hugging_face(const Json& config, StoredTensors tensors, const std::string& where,
                             const LoadOptions& options = {});

}  // namespace vitrine
