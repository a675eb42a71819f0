// Writes gradients in the form of the checkpoint that they belong to.
#pragma once

#include <string>

#include "autograd/gradients.h"
#include "base/progress.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"
#include "parallel/thread_pool.h"

namespace vitrine {

/// Writes `path`, a .safetensors file with the gradient of every parameter in float32. Names, shapes, orientation and
/// fused tensors are those of the checkpoint; a tied weight appears once, as the embedding. If the checkpoint's
/// format has no names, ours are used. Parameters without a gradient have zeros. Throws as FileWriter and `report` do.
void write_gradients(const std::string& path, const Checkpoint& checkpoint, const Gradients& gradients,
                     ThreadPool& pool, const ReportProgress& report = {});

/// The same to `sink`.
void write_gradients(TensorSink& sink, const Checkpoint& checkpoint, const Gradients& gradients, ThreadPool& pool);

}  // namespace vitrine
