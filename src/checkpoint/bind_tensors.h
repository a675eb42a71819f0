// Binds the tensors of a checkpoint of any format to the parameters of a model.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/family.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"

namespace vitrine {

/// All tensors of a checkpoint, in one file or several.
struct StoredTensors {
  std::map<std::string, StoredTensor> all;
  std::vector<std::shared_ptr<const void>> storage;  ///< Owns the memory of the tensors.
  std::string where;                                 ///< Names the checkpoint in messages.
};

/// A checkpoint whose parameters are views of the tensors, assigned by the family's table. Throws BadCheckpoint if a
/// tensor is missing, unknown, or of another shape than the config requires; Unsupported for a type that the engine
/// cannot compute with.
Checkpoint bind_tensors(const Family& family, ModelConfig config, StoredTensors tensors);

}  // namespace vitrine
