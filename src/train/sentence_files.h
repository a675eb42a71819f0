// The files of sentence-transformers in a folder that a run writes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "train/text_loss.h"

namespace vitrine {

/// Names, which may have a folder, and contents.
using FolderFiles = std::vector<std::pair<std::string, std::string>>;

/// Those of the model at `path`, which are copied. A model for vectors of width `d` that has none gets those of the
/// mean of its rows. Throws Unsupported for steps after the model that would have to learn, or that gradients do not
/// pass, BadCheckpoint for a malformed file.
FolderFiles sentence_files(const std::string& path, LearnedTask task, std::int64_t d);

}  // namespace vitrine
