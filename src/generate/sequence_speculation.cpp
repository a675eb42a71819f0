// Speculative decoding of a sequence: proposed ids are rows of its next pass, and leave the cache if they were wrong.
#include "generate/sequence_speculation.h"

#include <algorithm>

#include "generate/sequence.h"

namespace vitrine {

/// Searches, encoder–decoders, and sequences whose values are read or written are decoded token by token, as are models
/// that several processes run together.
bool Sequence::can_speculate() const {
  return context_.speculation != nullptr && context_.taps == nullptr && context_.split == nullptr &&
         request_.taps == nullptr && request_.source.empty() && request_.beam.n_beams == 1 && !receives_hidden() &&
         request_.max_tokens > 1;
}

void Sequence::start_speculation() {
  if (!can_speculate()) return;
  speculation_ = std::make_unique<SequenceSpeculation>();
  speculation_->proposer = context_.speculation->make_proposer(request_);
  result_.speculation.emplace();
}

std::int64_t Sequence::max_proposed() const {
  if (!speculation_ || speculation_->is_off) return 0;
  const KvCache& cache = *branches_.front().cache;
  const std::int64_t left = request_.max_tokens - n_new() - 1;  // the last token is never fed
  const std::int64_t fitting = std::min(left, cache.capacity() - cache.length() - 1);
  return std::clamp<std::int64_t>(std::min(fitting, until_snapshot(kMostProposed + 1) - 1), 0, kMostProposed);
}

SpeculationOffer Sequence::offer() {
  const std::int64_t most = max_proposed();
  if (most == 0) return {};
  SequenceSpeculation& own = *speculation_;
  const double seconds = own.proposer->seconds_per_id();
  if (seconds > 0) {
    constexpr std::int64_t kForgotten = 64;  // what was learned may no longer be so, and only a proposal tells
    if (++own.n_idle % kForgotten == 0) {
      own.acceptance = {};
      own.proposer->forget_time();
    }
    return {own.acceptance.rate(0), most, seconds};
  }
  own.proposal = own.proposer->propose(branches_.front().ids, most);
  return {own.acceptance.rate(own.proposal.kind), std::ssize(own.proposal.ids), 0};
}

/// More memory than there is free is never taken for proposals: nobody gives way to them. Whether a cache with states
/// can return into a pass, a pass without proposals tells.
void Sequence::take_proposals(std::int64_t n) {
  if (!speculation_) return;
  SequenceSpeculation& own = *speculation_;
  const Branch& branch = branches_.front();
  KvCache& cache = *branch.cache;
  own.begin = std::ssize(branch.ids) - 1;
  own.n_read = 0;
  if (n == 0) return;
  constexpr std::int64_t kBlocksOfStates = 2;  // those before the pass, and those to which it returns
  const std::int64_t bytes = cache.missing_bytes(1 + n) + kBlocksOfStates * cache.snapshot_bytes();
  if (bytes > context_.kv_memory->free_bytes()) return;
  if (cache.has_states() && !own.knows_states) return cache.keep_last_pass(true);
  if (own.proposer->seconds_per_id() > 0) {
    own.proposal = own.proposer->propose(branch.ids, n);
    own.n_idle = 0;
  }
  own.n_fed = std::min(n, std::ssize(own.proposal.ids));
  if (own.n_fed > 0 && reserve_more(own.n_fed)) cache.keep_last_pass(true);
}

/// Takes memory for proposed ids after the last token, which has its own.
bool Sequence::reserve_more(std::int64_t n) {
  KvCache& cache = *branches_.front().cache;
  try {
    cache.reserve(1 + n);
    return true;
  } catch (const OutOfCapacity&) {
    speculation_->n_fed = 0;
    cache.reserve(1);  // which it had
    return false;
  }
}

std::span<const std::int32_t> Sequence::proposed() const {
  if (!speculation_) return {};
  return std::span(speculation_->proposal.ids).first(static_cast<std::size_t>(speculation_->n_fed));
}

void Sequence::take_row(std::int64_t row, std::span<const float> logits, Sampler& sampler) {
  SequenceSpeculation& own = *speculation_;
  Branch& branch = branches_.front();
  const std::int64_t number = own.begin + row, last = std::ssize(branch.ids) - 1;
  if (row != own.n_read || has_ended() || number > last) return;
  if (row > 0 && branch.ids[static_cast<std::size_t>(number)] != proposed()[static_cast<std::size_t>(row - 1)]) return;
  if (number < last) {  // what follows has no choice
    if (number >= first_row()) take_prompt_logits(number, logits);
  } else {
    if (!report.tokens.empty()) own.steps.push_back(std::exchange(report, {report.id, {}, {}, {}, {}, {}}));
    take_logits(branch, logits, sampler);
  }
  ++own.n_read;
}

std::vector<SequenceStep> Sequence::take_earlier_reports() {
  if (!speculation_) return {};
  return std::exchange(speculation_->steps, {});
}

SpeculationCounts Sequence::end_pass(bool has_failed) {
  if (!speculation_) return {};
  SequenceSpeculation& own = *speculation_;
  KvCache& cache = *branches_.front().cache;
  count_acceptance();
  own.proposal = {};
  if (own.n_fed == 0) {
    if (cache.keeps_last_pass() && !has_failed) {
      own.knows_states = true;
      own.is_off = !cache.returns_into_last_pass();
    }
    cache.keep_last_pass(false);
    return {};
  }
  const SpeculationCounts counts{own.n_fed, std::max<std::int64_t>(0, own.n_read - 1), 1};
  const std::int64_t kept = branches_.front().first + own.begin + own.n_read;
  own.is_off = has_failed || (kept < cache.length() && cache.truncate(kept) < kept);
  cache.keep_last_pass(false);
  own.n_fed = 0;
  (report.result ? *report.result : result_).speculation->add(counts);
  return counts;
}

/// Compares what was proposed with the text, also if no proposed id was read: it costs nothing to learn from it.
void Sequence::count_acceptance() {
  SequenceSpeculation& own = *speculation_;
  const std::vector<std::int32_t>& ids = branches_.front().ids;
  const std::int64_t n = own.n_fed > 0 ? own.n_fed : std::min<std::int64_t>(1, std::ssize(own.proposal.ids));
  const std::int64_t known = std::min(n, std::ssize(ids) - own.begin - 1);
  std::int64_t right = 0;
  const auto is_right = [&](std::int64_t i) {
    return ids[static_cast<std::size_t>(own.begin + 1 + i)] == own.proposal.ids[static_cast<std::size_t>(i)];
  };
  while (right < known && is_right(right)) ++right;
  own.acceptance.count(own.proposal.kind, right, right < known);
}

}  // namespace vitrine
