// From the tensors of a checkpoint, whatever its format, to the parameters of a model.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/family.h"
#include "checkpoint/safetensors.h"
#include "model/params.h"

namespace vitrine {

/// All tensors of a checkpoint, of one file or several.
struct StoredTensors {
  std::map<std::string, StoredTensor> all;
  std::vector<std::shared_ptr<const void>> storage;  ///< Keeps alive what they point to.
  std::string where;                                 ///< Names the checkpoint in messages.
};

/// Makes `params` views of the tensors by the family's table; returns the prefix under which they stand. Throws
/// BadCheckpoint where a tensor is missing, left over, or has another shape than the config asks for, Unsupported for a
/// type that products cannot read.
std::string bind_tensors(const Family& family, const ModelConfig& config, StoredTensors& tensors, ModelParams& params);

}  // namespace vitrine
