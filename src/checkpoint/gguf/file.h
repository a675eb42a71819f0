// The tensors of a GGUF file, or of all files of a split model.
#pragma once

#include <memory>
#include <vector>

#include "base/gguf.h"
#include "base/mapped_file.h"
#include "checkpoint/bind_tensors.h"
#include "checkpoint/gguf/architecture.h"

namespace vitrine {

struct GgufModelFile {
  GgufMetadata metadata;  ///< Of the first file. Its views are into `tensors.storage`.
  StoredTensors tensors;
};

/// Reads the metadata of `file` and, if it is the first of a split model, of the other files in its folder, whose names
/// differ by their number: NAME-00001-of-00003.gguf. Every tensor is within its file, and no two overlap. Throws
/// BadInput for a file that is missing or not the first, BadCheckpoint for invalid metadata, Unsupported for types that
/// the engine cannot read.
GgufModelFile open_gguf(const std::shared_ptr<const MappedFile>& file);

/// Applies to a config what differs by format in all families, and what only the tensors say.
void apply_format(const GgufArchitecture& architecture, const StoredTensors& tensors, ModelConfig& model);

}  // namespace vitrine
