#include "generate/lookup_proposer.h"

#include <algorithm>

#include "generate/engine.h"

namespace vitrine {
namespace {

constexpr std::int32_t kEnd = -1;  // no id
constexpr std::size_t kPair = 2;

/// A match of at least so many ids is more certain than a copy that goes on after an id that differs.
constexpr std::size_t kCertain = 4;

/// The kind of a match; longer ones are right more often.
std::size_t kind_of(std::size_t length) {
  constexpr std::size_t kLongest[] = {2, 3, 5, 8, 16};
  return static_cast<std::size_t>(std::lower_bound(std::begin(kLongest), std::end(kLongest), length) - kLongest) + 1;
}

}  // namespace

LookupProposer::LookupProposer(std::span<const std::int32_t> prediction, std::size_t n_prompt) : n_prompt_(n_prompt) {
  append(kEnd);
  for (const std::int32_t id : prediction) append(id);
  append(kEnd);
  if (!prediction.empty()) copied_ = 1, n_right_ = kCertain;  // the answer may begin with it
  first_ = text_.size();
}

void LookupProposer::append(std::int32_t id) {
  text_.push_back(id);
  const std::size_t n = text_.size();
  before_.resize(n + 1, 0);
  if (n < kPair || id == kEnd || text_[n - kPair] == kEnd) return;
  const std::uint64_t pair =
      std::uint64_t{static_cast<std::uint32_t>(text_[n - kPair])} << 32 | static_cast<std::uint32_t>(id);
  std::int64_t& last = last_[pair];
  before_[n] = last;
  last = static_cast<std::int64_t>(n);
}

/// Compares an id of the answer with the copy.
void LookupProposer::follow(std::int32_t id) {
  constexpr std::size_t kMostWrong = 2;
  if (copied_ == 0) return;
  const std::int32_t expected = text_[copied_++];
  if (expected == id) {
    ++n_right_;
    n_wrong_ = 0;
  } else if (expected == kEnd || ++n_wrong_ > kMostWrong) {
    copied_ = 0;
  }
}

LookupProposer::Match LookupProposer::longest() const {
  constexpr std::size_t kMost = 64;  // ids that are compared
  constexpr int kCandidates = 32;
  const std::size_t end = text_.size();
  Match best;
  auto at = static_cast<std::size_t>(before_[end]);
  for (int i = 0; i < kCandidates && at > 0; ++i, at = static_cast<std::size_t>(before_[at])) {
    if (at <= best.length || text_[at - 1 - best.length] != text_[end - 1 - best.length]) continue;
    std::size_t length = kPair;
    while (length < kMost && length < at && text_[at - 1 - length] == text_[end - 1 - length] &&
           text_[at - 1 - length] != kEnd)
      ++length;
    if (length > best.length) best = {at, length};
    if (length == kMost) break;
  }
  return best;
}

Proposal LookupProposer::propose(std::span<const std::int32_t> ids, std::int64_t most) {
  for (std::size_t i = text_.size() - first_; i < ids.size(); ++i) {
    if (i >= n_prompt_) follow(ids[i]);
    append(ids[i]);
  }
  const Match match = longest();
  const bool goes_on = copied_ > 0 && n_right_ >= kCertain && match.length < kCertain;
  if (!goes_on && match.length == 0) return {};
  Proposal proposal{{}, goes_on ? 0 : kind_of(match.length)};
  if (!goes_on && copied_ != match.next) {
    copied_ = match.next;
    n_right_ = match.length;
    n_wrong_ = 0;
  }
  for (std::size_t at = copied_; std::ssize(proposal.ids) < most; ++at) {
    // A copy that reaches the end of the text goes on with its own beginning.
    const std::int32_t id = at < text_.size() ? text_[at] : proposal.ids[at - text_.size()];
    if (id == kEnd) break;
    proposal.ids.push_back(id);
  }
  return proposal;
}

Speculation lookup_speculation() {
  return {"lookup", [](const GenerateRequest& request) {
            return std::make_unique<LookupProposer>(request.prediction, request.prompt.size());
          }};
}

}  // namespace vitrine
