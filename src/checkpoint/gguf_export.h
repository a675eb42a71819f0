// Writes a model as a GGUF file.
#pragma once

#include <cstdint>
#include <string>

#include "base/gguf_writer.h"
#include "base/progress.h"
#include "checkpoint/load.h"
#include "parallel/thread_pool.h"

namespace vitrine {

struct GgufExport {
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;  ///< Of the tensors.
};

/// Writes `path`, a GGUF file with the model and the keys of `tokenizer`: matrices in `dtype` (f32, f16, bf16, q8_0 or
/// q4_0), vectors and learned positions in f32. As in llama.cpp, the head of a q4_0 file, or the embedding it is tied
/// to, is q6_k, or q8_0 if its rows are not whole blocks of q6_k; other matrices whose rows are not whole blocks are
/// f16. Needs a few MiB of memory. Throws Unsupported if no architecture of GGUF can express what the model computes,
/// BadInput for weights that the type cannot hold, and as FileWriter and `report` do.
GgufExport write_gguf(const std::string& path, const Checkpoint& checkpoint, DType dtype, const GgufKeys& tokenizer,
                      ThreadPool& pool, const ReportProgress& report = {});

}  // namespace vitrine
