// Adapters merged into the weights of a model.
#pragma once

#include <functional>

#include "checkpoint/load.h"
#include "parallel/thread_pool.h"
#include "pass/adapter.h"

namespace vitrine {

/// The type in which the merged weight of a parameter is kept: f32, f16 or bf16.
using MergedType = std::function<DType(const Param& param)>;

/// The base with W + s · B · A, computed in float32 and then rounded, in place of each weight W that the adapters
/// change; DoRA scales its rows. All other parameters are shared with the base. A tied head that an adapter changes
/// becomes a weight of its own. Throws Unsupported for that in an encoder–decoder.
Checkpoint merge_adapters(const Checkpoint& base, AppliedAdapters adapters, const MergedType& type, ThreadPool& pool);

}  // namespace vitrine
