// What a sequence keeps to read proposed ids.
#pragma once

#include <memory>
#include <vector>

#include "generate/engine.h"
#include "generate/speculation.h"

namespace vitrine {

struct SequenceSpeculation {
  std::unique_ptr<Proposer> proposer;
  Acceptance acceptance{};
  Proposal proposal{};      ///< Of the next token and those after it. A pass reads the first ids of it.
  std::int64_t begin = 0;   ///< The number of the last id of the text, whose row comes first.
  std::int64_t n_fed = 0;   ///< Proposed ids of this pass.
  std::int64_t n_idle = 0;  ///< Passes since the last one for which a costly proposer was called.
  std::int64_t n_read = 0;  ///< Rows of this pass that belong to the text: that of its last id, and of right proposals.
  bool knows_states = false;  ///< Whether the cache can return into a pass is known.
  bool is_off = false;        ///< A pass with proposals has failed, or the cache cannot return into a pass.
  SpeculationCounts counts{};
  std::vector<SequenceStep> steps{};  ///< Those of earlier rows of this pass, before Sequence::report.
};

}  // namespace vitrine
