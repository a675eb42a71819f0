// Proposes what a smaller model with the same vocabulary would write: speculative decoding with a draft model.
#pragma once

#include <memory>

#include "generate/context.h"
#include "generate/speculation.h"

namespace vitrine {

/// The most likely ids of a draft model, one after another. Each text has its own KV cache in the draft, which keeps
/// what it has of the text and, after a proposal that was wrong, returns to it.
class DraftProposer : public Proposer {
 public:
  static constexpr double kUnknown = 1e-9;

  /// What the proposers of a draft share.
  struct Shared {
    GenerateContext context{};    ///< Of the draft.
    std::int64_t vocab_size = 0;  ///< Of the model that it drafts for.
    double seconds_per_id = kUnknown;
    Arena arena{};
  };

  /// `capacity`: of the text, in tokens. What exceeds the draft's context is not drafted.
  DraftProposer(std::shared_ptr<Shared> shared, std::int64_t capacity);

  Proposal propose(std::span<const std::int32_t> ids, std::int64_t most) override;
  double seconds_per_id() const override { return shared_->seconds_per_id; }
  void forget_time() override { shared_->seconds_per_id /= 2; }

 private:
  Proposal draft(std::span<const std::int32_t> ids, std::int64_t most);
  std::int32_t read(std::span<const std::int32_t> ids);
  void measure(double seconds_per_id);

  std::shared_ptr<Shared> shared_;
  KvCache cache_;
  std::vector<std::int32_t> cached_;  // the ids in the cache
  bool has_failed_ = false;
};

/// Throws BadInput unless ids mean the same in both models, naming the first id that differs. Tokenizers may be null:
/// then the numbers of ids must be equal.
void check_same_vocabulary(const GenerateContext& model, const GenerateContext& draft);

/// Speculation with a draft. Throws as check_same_vocabulary(), and Unsupported for a draft that does not continue
/// texts. The pointers of `draft` are borrowed.
Speculation draft_speculation(const GenerateContext& model, const GenerateContext& draft);

}  // namespace vitrine
