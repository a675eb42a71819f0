// The files of sentence-transformers in a folder that a run writes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/text_steps.h"
#include "train/text_loss.h"

namespace vitrine {

/// Names, which may have a folder, and contents.
using FolderFiles = std::vector<std::pair<std::string, std::string>>;

/// Called before an element of the state is read, if not all of it is in this process
/// (train/distributed/divided_state.h).
using Hold = std::function<void(const void* element)>;

/// Those of the model at `path`, which are copied, without the weights of steps. A model for vectors of width `d` that
/// has none gets those of the mean of its rows. Throws Unsupported for steps after the model that gradients do not
/// pass, BadCheckpoint for a malformed file.
FolderFiles sentence_files(const std::string& path, LearnedTask task, std::int64_t d);

/// The steps that make vectors of texts of rows, as the files of the model at `path` say; without files, the mean of
/// the rows. Throws as read_text_modules().
TextSteps steps_of_vectors(const std::string& path);

/// Writes the weights of steps as float32 into the folders that modules.json, one of `files`, names. Throws as
/// FileWriter does.
void write_step_weights(const std::string& folder, const FolderFiles& files, const TextSteps& steps, const Hold& hold);

}  // namespace vitrine
