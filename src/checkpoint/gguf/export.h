// Writes a model as a GGUF file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/gguf_writer.h"
#include "base/progress.h"
#include "checkpoint/gguf/plan.h"
#include "checkpoint/load.h"
#include "parallel/thread_pool.h"

namespace vitrine {

struct GgufExport {
  std::vector<PlannedTensor> plan;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;               ///< Of the tensors.
  std::vector<std::string> unweighted;  ///< Matrices and experts for which the importance matrix has no inputs.
  GgufKeys numbers;                     ///< Of single layers, which are lists of keys and no tensors.
  std::vector<std::string> notes;       ///< In what the file differs from the model, one line each.
};

/// What a file has besides the model.
struct GgufExtras {
  GgufKeys keys{};
  std::vector<const Param*> dense{};  ///< dense_2 and dense_3 (sentences.h), in f32

  GgufExtras() = default;
  GgufExtras(GgufKeys tokenizer)
      : keys(std::move(tokenizer)) {}  // NOLINT(google-explicit-constructor): most files have no more
};

/// Writes `path`, a GGUF file with the model and `extras`: matrices in `types`, which may be a DType;
/// vectors, routers and learned positions in f32. Needs a few dozen MiB of memory. Throws Unsupported if no
/// architecture of GGUF can express what the model computes, BadInput for weights that a type cannot hold, for blocks
/// that would become other blocks and for an importance matrix of another model, and as FileWriter and `report` do.
GgufExport write_gguf(const std::string& path, const Checkpoint& checkpoint, const GgufTypes& types,
                      const GgufExtras& extras, ThreadPool& pool, const ReportProgress& report = {});

/// What write_gguf() would write. Throws as it does, except for what the weights and the disk are the cause of.
GgufExport plan_gguf(const std::string& path, const Checkpoint& checkpoint, const GgufTypes& types,
                     const GgufExtras& extras = {});

}  // namespace vitrine
