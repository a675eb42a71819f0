// Creates a checkpoint with random weights of any architecture.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/progress.h"
#include "parallel/thread_pool.h"
#include "tensor/dtype.h"

namespace vitrine {

/// Writes `folder`, which must be empty or not exist: `config` as config.json (with `dtype` as its torch_dtype) and
/// model.safetensors with weights drawn as model/initialize.h defines. `where` names the config in messages. Returns
/// the number of parameters. Throws BadInput for a folder that is not empty, OutOfCapacity if the disk is too small,
/// and what the config's reader and `report` throw; unfinished files are then removed.
std::int64_t init_checkpoint(const Json& config, const std::string& where, const std::string& folder, DType dtype,
                             std::uint64_t seed, ThreadPool& pool, const ReportProgress& report = {});

}  // namespace vitrine
