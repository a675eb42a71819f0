// The scores of pairs by the reference of a preference run, which a resumed run reads again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/preference.h"

namespace vitrine {

/// Writes {"chosen": [...], "rejected": [...]}. Throws as FileWriter does.
void write_references(const std::string& path, const std::vector<PairScore>& scores);
/// Throws BadCheckpoint if the file is malformed or has not `n` pairs.
std::vector<PairScore> read_references(const std::string& path, std::size_t n);

}  // namespace vitrine
