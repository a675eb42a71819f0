// The formats of load_checkpoint.
#pragma once

#include "base/mapped_file.h"
#include "checkpoint/load.h"

namespace vitrine {

/// A folder with config.json and model.safetensors, or shards with model.safetensors.index.json.
Checkpoint load_hugging_face(const std::string& folder, const LoadOptions& options);

/// A GGUF file, or the first of a split model whose other files are in the same folder.
Checkpoint load_gguf(const std::shared_ptr<const MappedFile>& file, const LoadOptions& options);

/// Whether the file has llama2.c's legacy header and exactly the size that follows from it.
bool is_llama2c(const MappedFile& file);
/// llama2.c's legacy format (its export.py, version 0): seven int32, then float32 tensors.
Checkpoint load_llama2c(const std::shared_ptr<const MappedFile>& file);

}  // namespace vitrine
