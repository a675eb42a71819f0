// The tensors of a GGUF file, or of all files of a split one, as they lie there.
#pragma once

#include <memory>
#include <vector>

#include "base/gguf.h"
#include "base/mapped_file.h"
#include "checkpoint/bind_tensors.h"

namespace vitrine {

struct GgufModelFile {
  GgufMetadata metadata;  ///< Of the first file. Its views are into `tensors.storage`.
  StoredTensors tensors;
};

/// Reads the front of `file` and, where it is the first of a split model, of the others beside it, whose names differ
/// by their number: NAME-00001-of-00003.gguf. Every tensor lies within its file and none over another. Throws BadInput
/// for a file that is missing or not the first, BadCheckpoint for one that lies, Unsupported for types that cannot be
/// read.
GgufModelFile open_gguf(const std::shared_ptr<const MappedFile>& file);

}  // namespace vitrine
