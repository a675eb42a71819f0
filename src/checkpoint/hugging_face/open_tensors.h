// The tensors of a Hugging Face folder.
#pragma once

#include <filesystem>

#include "checkpoint/bind_tensors.h"

namespace vitrine {

/// Whether a file or folder of that name exists, or may exist but cannot be examined: opening it then gives the reason.
bool may_exist(const std::filesystem::path& path);

/// All tensors of the folder, from one file or from shards. Throws BadInput if it has neither, BadCheckpoint.
StoredTensors open_tensors(const std::filesystem::path& folder);

}  // namespace vitrine
