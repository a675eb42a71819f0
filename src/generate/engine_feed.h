// The rows of one step of an engine.
#pragma once

#include <algorithm>
#include <vector>

#include "generate/sequence.h"

namespace vitrine {

/// What a pass reads, and whom its segments and its rows of logits belong to.
struct EngineFeed {
  struct Reader {
    Sequence* sequence;
    std::size_t branch;
    std::int64_t position = -1;  // of a row of the prompt that is not its last; else a token is chosen from the logits
    std::int64_t row = -1;       // of a sequence with proposals: 0 for its last token, then those of proposals
  };

  /// Normed rows that a sequence receives.
  struct Hidden {
    Sequence* sequence;
    std::size_t segment;
    std::int64_t position, count;
  };

  std::vector<std::int32_t> ids, sources;
  std::vector<Reader> fed;          // one for each segment
  std::vector<SequenceTaps*> taps;  // one for each segment, or null
  std::vector<Reader> drawn;        // one for each row with logits
  std::vector<Hidden> hidden;
  Sequence* refused = nullptr;  // one that must wait for memory, if any

  std::int64_t n_rows() const { return static_cast<std::int64_t>(ids.size() + sources.size()); }
  bool has(const Sequence& sequence) const {
    return std::any_of(fed.begin(), fed.end(), [&](const Reader& reader) { return reader.sequence == &sequence; });
  }
  void add(Sequence& sequence, std::size_t branch, std::int64_t most, Pass& pass);

 private:
  void add_rows(Sequence& sequence, std::size_t branch, Pass& pass);
};

}  // namespace vitrine
