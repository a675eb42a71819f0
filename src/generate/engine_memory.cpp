// Which sequences a step feeds, and whose memory they take.
#include <algorithm>
#include <chrono>

#include "generate/engine_feed.h"

namespace vitrine {
namespace {

bool takes_part(const Sequence& s) { return !s.paused && !s.has_ended(); }

}  // namespace

void Engine::feed_decoding(EngineFeed& feed, Pass& pass) {
  std::vector<Sequence*> sequences;
  for (const auto& [id, s] : sequences_) {
    if (takes_part(*s) && !s->is_reading() && reserve(*s, 1, feed)) sequences.push_back(s.get());
  }
  take_proposals(sequences);
  for (Sequence* const s : sequences) {
    for (std::size_t branch = 0; branch < s->branches().size(); ++branch) feed.add(*s, branch, 1, pass);
  }
}

/// Each step begins with the sequence after the one that the last step read in part.
void Engine::feed_reading(EngineFeed& feed, Pass& pass, std::int64_t budget) {
  auto at = sequences_.upper_bound(last_read_);
  for (std::size_t i = 0; i < sequences_.size(); ++i, ++at) {
    if (at == sequences_.end()) at = sequences_.begin();
    Sequence& s = *at->second;
    if (!takes_part(s) || !s.is_reading()) continue;
    if (feed.n_rows() > 0 && feed.n_rows() >= budget) break;
    const bool in_one_pass = s.taps() != nullptr && s.taps()->needs_one_pass();
    if (!begin(s, feed) || !load_stored(s, feed)) continue;
    const std::int64_t most = in_one_pass
                                  ? std::ssize(s.branches().front().ids)
                                  : s.until_snapshot(std::clamp<std::int64_t>(budget - feed.n_rows(), 1, s.chunk()));
    if (!reserve(s, most, feed)) continue;
    feed.add(s, 0, most, pass);
    last_read_ = at->first;
  }
  if (feed.fed.empty() && feed.refused != nullptr) {  // it would wait forever
    feed.refused->report.error = std::make_exception_ptr(
        OutOfCapacity("kv_memory", "the memory for keys and values is too small for a sequence of {} tokens",
                      feed.refused->branches().front().ids.size()));
  }
}

/// Whether a sequence without tokens in its cache begins now. Looks for a prefix that is kept. A sequence waits while
/// another one reads more of the same prefix, and until there is memory for all of its tokens: it would only lose them
/// again to older sequences.
bool Engine::begin(Sequence& s, const EngineFeed& feed) {
  if (s.holds_memory()) return true;
  s.restore_prefix();
  const KvCache& cache = *s.branches().front().cache;
  const std::int64_t known = cache.length();
  const auto reads_more = [&](const auto& entry) {
    const Sequence& other = *entry.second;
    return &other != &s && takes_part(other) && other.is_reading() && (other.holds_memory() || feed.has(other)) &&
           s.n_shared(other) >= known + cache.block_length();
  };
  bool waits = std::any_of(sequences_.begin(), sequences_.end(), reads_more);
  if (!waits && others_use_memory(s)) {
    waits = !has_free(cache.missing_bytes(std::ssize(s.branches().front().ids) - known));
  }
  if (waits && known > 0) s.restart();  // releases the prefix
  return !waits;
}

/// Adds the tokens that the store has to those of a sequence. Returns false if it goes on with the next step: there is
/// no memory, or others have rows in this step, which must not wait long.
bool Engine::load_stored(Sequence& s, EngineFeed& feed) {
  constexpr std::chrono::milliseconds kLongest(20);
  const auto start = std::chrono::steady_clock::now();
  while (const std::int64_t n = s.n_stored()) {
    if (feed.n_rows() > 0 && std::chrono::steady_clock::now() - start > kLongest) return false;
    if (!reserve(s, n, feed)) return false;
    s.load_stored();
  }
  return true;
}

/// Whether so many bytes can be taken without those of sequences that take part.
bool Engine::has_free(std::int64_t bytes) const {
  if (context_.prefixes != nullptr) bytes -= context_.prefixes->idle_bytes();
  for (const auto& [id, s] : sequences_) {
    if (s->paused && s->can_restart()) bytes -= s->branches().front().cache->own_bytes();
  }
  return bytes <= context_.kv_memory->free_bytes();
}

bool Engine::fits(const GenerateRequest& request) const {
  std::int64_t missing = 0;
  bool is_first = true;
  for (const auto& [id, s] : sequences_) {
    if (!takes_part(*s)) continue;
    is_first = false;
    const Branch& branch = s->branches().front();
    missing += branch.cache->missing_bytes(std::ssize(branch.ids) - branch.n_fed());
  }
  if (is_first) return true;
  CountedKvMemory counted(context_.kv_memory->block_length());
  GenerateContext context = context_;
  context.kv_memory = &counted;
  const auto n = std::ssize(request.prompt);
  return has_free(missing + Sequence::make_cache(context, request, n).missing_bytes(n));
}

std::int64_t Engine::max_bytes(GenerateContext context, const GenerateRequest& request) {
  CountedKvMemory counted(context.kv_memory->block_length());
  context.kv_memory = &counted;
  const std::int64_t capacity = Sequence::capacity_of(context, request);
  const bool in_one_pass = request.taps != nullptr && request.taps->needs_one_pass();
  return Sequence::make_cache(context, request, capacity)
      .full_bytes(in_one_pass ? capacity : request.chunk.value_or(context.chunk));
}

/// Takes memory for the next tokens of a sequence, at most `most` for each branch. Returns false if it must wait.
bool Engine::reserve(Sequence& s, std::int64_t most, EngineFeed& feed) {
  while (!s.reserve(most)) {
    if (context_.prefixes != nullptr && context_.prefixes->evict()) continue;
    if (Sequence* const victim = find_victim(s, feed)) {
      victim->restart();
      ++n_restarts_;
      continue;
    }
    feed.refused = &s;
    return false;
  }
  return true;
}

/// The sequence that loses its memory to `s`: the youngest paused one, or else the youngest, if it is younger than `s`;
/// not one that has rows in this step.
Sequence* Engine::find_victim(const Sequence& s, const EngineFeed& feed) {
  Sequence* victim = nullptr;
  for (const auto& [id, other] : sequences_) {
    const bool gives_way = other->paused || id > s.report.id;
    if (other.get() == &s || !gives_way || !other->can_restart() || !other->holds_memory() || feed.has(*other))
      continue;
    if (victim == nullptr || other->paused || !victim->paused) victim = other.get();
  }
  return victim;
}

bool Engine::others_use_memory(const Sequence& s) const {
  return std::any_of(sequences_.begin(), sequences_.end(), [&](const auto& entry) {
    return entry.second.get() != &s && takes_part(*entry.second) && entry.second->holds_memory();
  });
}

}  // namespace vitrine
