// Gradients as a file, in the form of the checkpoint that they are of.
#pragma once

#include <string>

#include "autograd/gradients.h"
#include "base/progress.h"
#include "checkpoint/load.h"
#include "parallel/thread_pool.h"

namespace vitrine {

/// Writes `path`, a .safetensors file: the gradient of every parameter, float32, under the checkpoint's own names, in
/// its shapes and orientation (what is fused there is fused here; a tied weight stands once, as the embedding). Under
/// our names where the checkpoint's format has none. Parameters that do not learn are zeros. Throws as FileWriter does,
/// and what `report` throws.
void write_gradients(const std::string& path, const Checkpoint& checkpoint, const Gradients& gradients,
                     ThreadPool& pool, const ReportProgress& report = {});

}  // namespace vitrine
