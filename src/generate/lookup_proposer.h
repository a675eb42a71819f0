// Proposes what followed the last ids earlier in the text: prompt lookup decoding.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "generate/speculation.h"

namespace vitrine {

/// The longest match wins, of equally long ones the most recent. After a proposed id that was wrong, the ids after it
/// are proposed until there is a longer match: often the copy of a text differs in single tokens.
///
/// The index has one entry for each position of the text, by the two ids before it. An id costs a few steps, however
/// long the text is.
class LookupProposer : public Proposer {
 public:
  /// `prediction`: what the answer may be, as the caller expects. `n_prompt`: the number of ids before the answer.
  LookupProposer(std::span<const std::int32_t> prediction, std::size_t n_prompt);

  Proposal propose(std::span<const std::int32_t> ids, std::int64_t most) override;

 private:
  struct Match {
    std::size_t next = 0, length = 0;  // the position after it
  };

  void append(std::int32_t id);
  void follow(std::int32_t id);
  Match longest() const;

  std::vector<std::int32_t> text_;  // the prediction, kEnd, and the ids
  std::size_t first_;               // where the ids begin
  std::size_t n_prompt_;
  std::unordered_map<std::uint64_t, std::int64_t> last_;  // of two ids: the last position after them
  std::vector<std::int64_t> before_;                      // of a position: the last one before it, after the same ids
  std::size_t copied_ = 0;                                // where the next id is if the copy goes on; 0: none
  std::size_t n_right_ = 0, n_wrong_ = 0;  // of the copy: ids that were right, and the last that were not
};

/// Speculation without a second model.
Speculation lookup_speculation();

}  // namespace vitrine
