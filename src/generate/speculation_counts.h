// How many proposed ids speculative decoding has read, and how many of them were right.
#pragma once

#include <cstdint>

namespace vitrine {

/// Of one sequence or of several.
struct SpeculationCounts {
  std::int64_t drafted = 0;   ///< Ids that were proposed and read.
  std::int64_t accepted = 0;  ///< Those of them that the text has.
  std::int64_t rounds = 0;    ///< Passes that read some.

  void add(const SpeculationCounts& other) {
    drafted += other.drafted;
    accepted += other.accepted;
    rounds += other.rounds;
  }
};

}  // namespace vitrine
