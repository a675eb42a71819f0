// All samples of a file of conversations or pairs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conversation/encoder.h"

namespace vitrine {

/// What happens to a line with a sample of more ids than `longest`.
enum class TooLong : std::uint8_t { refuse, drop, cut };

struct SampleFileOptions {
  bool is_pairs = false;     ///< Lines are pairs of answers.
  std::int64_t longest = 0;  ///< Ids of a sample; 0: any number.
  TooLong too_long = TooLong::refuse;
};

struct SampleFile {
  /// The samples of each line, at least one; of a pair two: the chosen and the rejected answer.
  std::vector<std::vector<Sample>> lines;
  std::int64_t n_dropped = 0, n_cut = 0;  ///< Lines that were too long.

  std::int64_t n_ids() const;
};

/// Reads a file. Each sample has an id that is learned. Throws BadInput, naming the line, for one that cannot be
/// learned from, and if no line is left.
SampleFile read_samples(const std::string& path, const ConversationEncoder& encoder, const SampleFileOptions& options);

}  // namespace vitrine
