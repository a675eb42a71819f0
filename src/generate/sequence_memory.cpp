// The memory of a sequence: its cache, the prefixes that it shares, and what it does when its cache is taken away.
#include <algorithm>

#include "base/error.h"
#include "generate/sequence.h"
#include "model/sites.h"

namespace vitrine {

std::int64_t Sequence::capacity_of(const GenerateContext& context, const GenerateRequest& request) {
  const auto prompt_size = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t rest = context.model->config().max_seq_len - prompt_size;
  return std::min(rest, std::max<std::int64_t>(0, request.max_tokens - 1)) + prompt_size;
}

KvCache Sequence::make_cache(const GenerateContext& context, const GenerateRequest& request, std::int64_t capacity) {
  const KvReach reach = request.taps != nullptr ? KvReach::all : KvReach::windows;
  return context.make_cache(capacity, request.source.size(), reach);
}

std::shared_ptr<KvCache> Sequence::make_cache(std::int64_t capacity) const {
  auto cache = std::make_shared<KvCache>(make_cache(context_, request_, capacity));
  if (!shares_prefixes()) return cache;
  // Those of a block are given to the prefix cache together.
  const auto in_block = static_cast<std::size_t>(cache->block_length() / context_.state_every);
  cache->keep_snapshots(context_.state_every, StateCache::kMaxSnapshots + in_block);
  return cache;
}

Branch Sequence::first_branch() const {
  if (request_.cache == nullptr) return {make_cache(capacity_of(context_, request_)), request_.prompt};
  const std::int64_t length = request_.cache->length(), first = request_.continues_cache ? length : 0;
  const std::int64_t end = first + static_cast<std::int64_t>(request_.prompt.size());
  if (length >= end || request_.cache->capacity() < end) {
    throw InternalError("generate", "expected a cache with a part of {} tokens and space for all, got {} of {}", end,
                        length, request_.cache->capacity());
  }
  return {request_.cache, request_.prompt, first};
}

bool Sequence::is_reading() const {
  const Branch& first = branches_.front();
  return n_new() == 0 || first.n_fed() + 1 < std::ssize(first.ids);
}

std::span<const std::int32_t> Sequence::pending_source() const {
  if (branches_.front().cache->length() > 0) return {};
  return request_.source;
}

std::span<const std::int32_t> Sequence::pending(const Branch& branch, std::int64_t most) {
  const auto all = std::span(branch.ids).subspan(static_cast<std::size_t>(branch.n_fed()));
  return all.first(std::min(all.size(), static_cast<std::size_t>(most)));
}

/// Whether the taps want rows of the final norm or of the head, which have logits only.
bool Sequence::taps_head() const {
  if (request_.taps == nullptr) return false;
  return std::any_of(all_sites().begin(), all_sites().end(), [&](Site site) {
    return info(site).place >= SitePlace::final_norm && request_.taps->wants({site});
  });
}

bool Sequence::shares_prefixes() const {
  return context_.prefixes != nullptr && context_.taps == nullptr && can_restart() && request_.source.empty() &&
         request_.taps == nullptr;
}

PrefixKey Sequence::prefix_key() const {
  const std::int64_t planned = longest_planned_length(context_.model->config(), branches_.front().cache->capacity());
  return {request_.owner, planned, keys_of(modifiers())};
}

std::int64_t Sequence::max_restored() const {
  return std::min(first_row(), std::ssize(branches_.front().ids) - 1);  // the last token's logits are needed
}

void Sequence::restore_prefix() {
  const Branch& branch = branches_.front();
  if (!shares_prefixes() || branch.cache->length() > 0) return;
  const std::int64_t n = context_.prefixes->restore(prefix_key(), branch.ids, max_restored(), *branch.cache);
  if (!has_begun) result_.cached_tokens = n;
  n_kept_ = n;
}

/// As shares_prefixes(), but a caller may also keep the cache.
void Sequence::open_stored() {
  const Branch& branch = branches_.front();
  const auto replaces = [](const AppliedDictionary& own) { return own.use == DictionaryUse::replace; };
  if (std::ranges::any_of(modifiers().dictionaries, replaces)) return;  // names of blocks say nothing of dictionaries
  const bool uses_store = context_.store != nullptr && context_.taps == nullptr && request_.taps == nullptr &&
                          request_.source.empty() && request_.beam.n_beams == 1 && branch.first == 0;
  if (!uses_store) return;
  stored_.emplace(*context_.store, context_.store->root(prefix_key(), modifiers()), context_.state_every);
}

std::int64_t Sequence::n_stored() {
  const Branch& branch = branches_.front();
  return stored_ ? stored_->ahead(branch.ids, max_restored(), *branch.cache) : 0;
}

void Sequence::load_stored() {
  const Branch& branch = branches_.front();
  const std::int64_t n = stored_->load(branch.ids, max_restored(), *branch.cache);
  if (!has_begun) result_.cached_tokens += n;
  if (branch.cache->length() == before_last()) branch.cache->snapshot();
}

void Sequence::keep_stored() {
  if (!stored_) return;
  const Branch& branch = branches_.front();
  const std::int64_t length = branch.cache->length();
  stored_->keep(branch.ids, *branch.cache, length % context_.state_every == 0 || length == before_last());
}

void Sequence::keep_prefix(bool with_last) {
  const Branch& branch = branches_.front();
  KvCache& cache = *branch.cache;
  const std::int64_t length = cache.length(), block = cache.block_length();
  keep_stored();
  if (length == before_last()) cache.snapshot();
  if (!shares_prefixes()) return;
  if (length / block == n_kept_ / block && (!with_last || length == n_kept_)) return;
  if (with_last) cache.snapshot();
  context_.prefixes->keep(prefix_key(), branch.ids, cache, with_last);
  n_kept_ = length;
}

std::int64_t Sequence::before_last() const {
  const std::int64_t end = branches_.front().first + std::ssize(request_.prompt);
  return request_.max_tokens > 0 ? end - 1 : end;
}

std::int64_t Sequence::until_snapshot(std::int64_t most) const {
  const KvCache& cache = *branches_.front().cache;
  if (!cache.keeps_snapshots() && !(stored_ && cache.has_states())) return most;
  const std::int64_t length = cache.length(), in_interval = length % context_.state_every;
  const std::int64_t n = std::min(most, context_.state_every - in_interval);
  return length < before_last() ? std::min(n, before_last() - length) : n;
}

std::int64_t Sequence::n_shared(const Sequence& other) const {
  if (!shares_prefixes() || !other.shares_prefixes() || prefix_key() != other.prefix_key()) return 0;
  const std::span<const std::int32_t> ids = branches_.front().ids, others = other.branches_.front().ids;
  const auto first_other = std::mismatch(ids.begin(), ids.end(), others.begin(), others.end()).first;
  const std::int64_t n = std::min<std::int64_t>(first_other - ids.begin(), max_restored());
  if (!branches_.front().cache->has_states()) return n;
  return n >= other.before_last() ? other.before_last() : n - n % context_.state_every;
}

bool Sequence::holds_memory() const { return branches_.front().cache->length() > 0; }

bool Sequence::reserve(std::int64_t most) {
  try {
    for (const Branch& branch : branches_) {
      branch.cache->reserve(std::ssize(pending(branch, most)));
    }
    if (const auto source = pending_source(); !source.empty()) {
      branches_.front().cache->source()->reserve(std::ssize(source));
    }
    return true;
  } catch (const OutOfCapacity&) {
    return false;
  }
}

void Sequence::restart() {
  keep_prefix(true);
  branches_.front().cache = make_cache(branches_.front().cache->capacity());
  n_kept_ = 0;
  if (stored_) stored_->restart();
}

}  // namespace vitrine
