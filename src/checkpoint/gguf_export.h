// Writing a model as a GGUF file.
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

/// Writes `path`: the model under GGUF's names of keys and tensors, `tokenizer`'s keys among them, matrices in `dtype`
/// (f32, f16, bf16, q8_0 or q4_0), vectors and learned positions in f32. As llama.cpp has it, with q4_0 the head, or
/// the embedding it is tied to, is q6_k, or q8_0 where its rows are no whole blocks of q6_k; other rows that are no
/// whole blocks are f16. Nothing is held but a few MiB. Throws Unsupported, by name, where GGUF has no architecture
/// that says what the model computes, BadInput for weights that the type cannot hold, and as FileWriter and `report`
/// do.
GgufExport write_gguf(const std::string& path, const Checkpoint& checkpoint, DType dtype, const GgufKeys& tokenizer,
                      ThreadPool& pool, const ReportProgress& report = {});

}  // namespace vitrine
