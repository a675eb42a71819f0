#include "generate/draft_proposer.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "base/error.h"
#include "generate/engine.h"
#include "generate/sequence.h"

namespace vitrine {
namespace {

std::int64_t capacity_of(const GenerateContext& draft, std::int64_t text) {
  return std::min(draft.model->config().max_seq_len, text);
}

}  // namespace

DraftProposer::DraftProposer(std::shared_ptr<Shared> shared, std::int64_t capacity)
    : shared_(std::move(shared)),
      cache_(shared_->context.make_cache(capacity_of(shared_->context, capacity + kMostProposed))) {
  cache_.keep_snapshots(shared_->context.state_every);
}

/// Returns the most likely id after these, which come after those in the cache.
std::int32_t DraftProposer::read(std::span<const std::int32_t> ids) {
  const GenerateContext& context = shared_->context;
  Pass pass = context.make_pass(shared_->arena, {{0, std::ssize(ids), cache_.length(), &cache_}});
  std::int32_t likeliest = 0;
  pass.logits = {LogitRequest::Rows::last_of_segments, 0, 0, [&](std::int64_t, const Tensor& logits) {
                   const float* const row = logits.row(0);
                   likeliest = static_cast<std::int32_t>(std::max_element(row, row + logits.row_size()) - row);
                 }};
  context.forward(pass, Tokens(ids));
  cached_.insert(cached_.end(), ids.begin(), ids.end());
  return likeliest;
}

/// What fails in the draft is no failure of the text: an id beyond its embedding, for example, which is smaller than
/// the model's where both have the same vocabulary and different padding.
Proposal DraftProposer::propose(std::span<const std::int32_t> ids, std::int64_t most) {
  if (has_failed_) return {};
  try {
    return draft(ids, most);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    has_failed_ = true;
  } catch (const std::bad_alloc&) {
    has_failed_ = true;
  }
  return {};
}

/// A long text is read in several calls, which propose nothing, so that none of them takes long.
Proposal DraftProposer::draft(std::span<const std::int32_t> ids, std::int64_t most) {
  const auto common = std::mismatch(ids.begin(), ids.end(), cached_.begin(), cached_.end()).first - ids.begin();
  const std::int64_t kept = cache_.truncate(std::min<std::int64_t>(common, std::ssize(ids) - 1));
  cached_.resize(static_cast<std::size_t>(kept));
  std::span<const std::int32_t> rest = ids.subspan(static_cast<std::size_t>(kept));
  shared_->context.check_ids(rest);
  if (std::ssize(ids) + most > cache_.capacity()) return {};
  if (std::ssize(rest) > shared_->context.chunk) {
    read(rest.first(static_cast<std::size_t>(shared_->context.chunk)));
    return {};
  }
  Proposal proposal;
  const auto start = std::chrono::steady_clock::now();
  std::int32_t next = read(rest);
  cache_.snapshot();  // of states, to which the next call returns
  while (next < shared_->vocab_size) {
    proposal.ids.push_back(next);
    if (std::ssize(proposal.ids) >= most) break;
    next = read({&next, 1});
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const bool is_typical = std::ssize(rest) <= kMostProposed + 1 && !proposal.ids.empty();  // not a prompt
  if (is_typical) measure(seconds.count() / static_cast<double>(proposal.ids.size()));
  return proposal;
}

/// One slow call says little about the next one.
void DraftProposer::measure(double seconds_per_id) {
  double& known = shared_->seconds_per_id;
  constexpr double kOfLast = 0.2, kMost = 2;
  known = known <= kUnknown ? seconds_per_id : known + kOfLast * (std::min(seconds_per_id, kMost * known) - known);
}

void check_same_vocabulary(const GenerateContext& model, const GenerateContext& draft) {
  const std::int64_t n = model.model->config().vocab_size, n_draft = draft.model->config().vocab_size;
  if (model.tokenizer == nullptr || draft.tokenizer == nullptr) {
    if (n == n_draft) return;
    throw BadInput("--draft", "expected the model's vocabulary, but id {} is only in the {}: it has {} ids, not {}",
                   std::min(n, n_draft), n > n_draft ? "model" : "draft", std::max(n, n_draft), std::min(n, n_draft));
  }
  const Tokenizer &own = model.tokenizer->target(), &other = draft.tokenizer->target();
  const std::int64_t known = std::min(own.vocab_size(), other.vocab_size());
  for (std::int64_t i = 0; i < known; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (own.piece(id) == other.piece(id) && own.bytes(id) == other.bytes(id)) continue;
    throw BadInput("--draft",
                   "expected the model's vocabulary, but id {} is \"{}\" in the model and \"{}\" in the draft", id,
                   own.piece(id), other.piece(id));
  }
  if (own.vocab_size() == other.vocab_size()) return;
  throw BadInput("--draft", "expected the model's vocabulary, but id {} is only in the {}", known,
                 own.vocab_size() > known ? "model" : "draft");
}

Speculation draft_speculation(const GenerateContext& model, const GenerateContext& draft) {
  if (draft.model->config().encoder || is_bidirectional(draft.model->config())) {
    throw Unsupported("--draft", "the draft does not continue texts");
  }
  check_same_vocabulary(model, draft);
  const auto shared = std::make_shared<DraftProposer::Shared>();
  shared->context = draft;
  shared->vocab_size = model.model->config().vocab_size;
  const GenerateContext context = model;
  return {"draft", [shared, context](const GenerateRequest& request) {
            return std::make_unique<DraftProposer>(shared, Sequence::capacity_of(context, request));
          }};
}

}  // namespace vitrine
