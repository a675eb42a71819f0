// Speculative decoding: ids that may follow a text are proposed and read in one pass with its last token, as a prompt
// is. Each token is then drawn from its own row, as without proposals, while the drawn one is the proposed one; the
// rows after the first difference leave the cache. As the bits of a row do not depend on the rows of the same pass, the
// text is the same, and only its speed differs.
//
// Sources: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023; Saxena, "Prompt Lookup
// Decoding", 2023.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/row_costs.h"
#include "generate/speculation_counts.h"

namespace vitrine {

struct GenerateRequest;

/// How proposals are found. Each kind has its own rate of acceptance.
constexpr std::size_t kProposalKinds = 8;

/// Ids that may follow a text.
struct Proposal {
  std::vector<std::int32_t> ids{};
  std::size_t kind = 0;  ///< Below kProposalKinds.
};

/// Proposes the next ids of one text.
class Proposer {
 public:
  virtual ~Proposer() = default;
  /// At most `most` ids, in the vocabulary, that may follow `ids`, which are a prompt and the answer so far. The ids of
  /// a later call begin with those of an earlier one.
  virtual Proposal propose(std::span<const std::int32_t> ids, std::int64_t most) = 0;
  /// The time for an id, in seconds. If it is 0, proposals are made first, and then it is decided how many are read.
  virtual double seconds_per_id() const { return 0; }
  /// Nothing has been proposed for long: what was measured may no longer be so.
  virtual void forget_time() {}
};

/// How often proposals were right, by kind. The last ones count most.
class Acceptance {
 public:
  double rate(std::size_t kind) const { return kinds_[kind].right / kinds_[kind].all; }
  /// `accepted` ids were right. `was_wrong`: the one after them was not.
  void count(std::size_t kind, std::int64_t accepted, bool was_wrong);

 private:
  struct Counts {
    double right = 1, all = 2;  // before the first proposal, half of them are expected to be right
  };
  std::array<Counts, kProposalKinds> kinds_{};
};

/// What the engines of a context share. Use it from one thread at a time.
struct Speculation {
  std::string method;  ///< As it is reported: "lookup" or "draft".
  std::function<std::unique_ptr<Proposer>(const GenerateRequest&)> make_proposer;
  std::optional<std::int64_t> fixed{};  ///< So many are read if they are proposed, whatever they cost.
  RowCosts costs{};

  /// Whether passes of so many sequences take long enough for anything that is done to save passes: in a tiny model,
  /// looking for proposals takes a tenth of a pass.
  bool may_pay(std::int64_t n_sequences) const {
    constexpr double kQuickPass = 150e-6;  // seconds
    return fixed || !costs.is_measured() || costs.seconds(n_sequences) >= kQuickPass;
  }
};

/// What a sequence may read in a pass, in addition to its last token.
struct SpeculationOffer {
  double rate = 0;  ///< The probability that an id is accepted if those before it are.
  std::int64_t most = 0;
  double seconds_per_id = 0;
};

/// The most proposed ids of a sequence, and of all sequences, in a pass.
constexpr std::int64_t kMostProposed = 16, kMostProposedInPass = 64;

/// How many ids of each offer to read, in addition to the `offers.size()` rows of the last tokens, so that the expected
/// number of new tokens per second is greatest.
std::vector<std::int64_t> numbers_to_read(std::span<const SpeculationOffer> offers, const RowCosts& costs);

}  // namespace vitrine
