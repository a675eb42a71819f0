#include "generate/engine.h"

#include <algorithm>

#include "generate/sequence.h"

namespace vitrine {

Engine::Engine(const GenerateContext& context) : context_(context) {}
Engine::~Engine() = default;

std::uint64_t Engine::add(GenerateRequest request) {
  auto sequence = std::make_unique<Sequence>(context_, std::move(request));
  sequence->report.id = next_id_;
  sequences_.emplace(next_id_, std::move(sequence));
  return next_id_++;
}

void Engine::cancel(std::uint64_t id) { sequences_.erase(id); }

void Engine::pause(std::uint64_t id, bool paused) {
  if (const auto at = sequences_.find(id); at != sequences_.end()) at->second->paused = paused;
}

bool Engine::has_work() const {
  return std::any_of(sequences_.begin(), sequences_.end(), [](const auto& entry) { return !entry.second->paused; });
}

std::int64_t Engine::n_decoding() const {
  return std::count_if(sequences_.begin(), sequences_.end(), [](const auto& entry) {
    const Sequence& s = *entry.second;
    return !s.paused && !s.has_ended() && s.has_read_prompt();
  });
}

/// What a pass reads, and whom its segments and its rows of logits belong to.
struct Engine::Feed {
  struct Reader {
    Sequence* sequence;
    std::size_t branch;
    std::int64_t position = -1;  // of a row of the prompt that is not its last; else a token is chosen from the logits
  };

  std::vector<std::int32_t> ids, sources;
  std::vector<Reader> fed;    // one for each segment
  std::vector<Reader> drawn;  // one for each row with logits

  std::int64_t n_rows() const { return static_cast<std::int64_t>(ids.size() + sources.size()); }
  void add(Sequence& sequence, std::size_t branch, std::int64_t most, Pass& pass);
};

/// Adds the next tokens of a branch, at most `most`, and its source before the first of them.
void Engine::Feed::add(Sequence& sequence, std::size_t branch, std::int64_t most, Pass& pass) {
  Branch& b = sequence.branches()[branch];
  const auto pending = Sequence::pending(b, most);
  const auto first_row = static_cast<std::int64_t>(ids.size());
  pass.segments.push_back({first_row, static_cast<std::int64_t>(pending.size()), b.cache->length(), b.cache.get()});
  pass.segments.back().adapters = sequence.adapters();
  if (const auto source = sequence.pending_source(); !source.empty()) {
    pass.segments.back().source = static_cast<int>(pass.sources.size());
    pass.sources.push_back({static_cast<std::int64_t>(sources.size()), static_cast<std::int64_t>(source.size())});
    pass.sources.back().adapters = sequence.adapters();
    sources.insert(sources.end(), source.begin(), source.end());
  }
  ids.insert(ids.end(), pending.begin(), pending.end());
  fed.push_back({&sequence, branch});
  if (sequence.scores_prompt()) {
    const auto last = static_cast<std::int64_t>(b.ids.size()) - 1;
    for (std::int64_t i = 0; i < std::ssize(pending) && b.cache->length() + i < last; ++i) {
      drawn.push_back({&sequence, branch, b.cache->length() + i});
      pass.logits.chosen.push_back(first_row + i);
    }
  }
  if (!Sequence::draws_after(b, pending.size())) return;
  drawn.push_back({&sequence, branch});
  pass.logits.chosen.push_back(static_cast<std::int64_t>(ids.size()) - 1);
}

EngineStep Engine::step(std::int64_t budget) {
  Pass pass = context_.make_pass(arena_);
  pass.logits.rows = LogitRequest::Rows::chosen;
  Feed feed;
  for (const auto& [id, s] : sequences_) {
    if (s->paused || s->has_ended() || !s->has_read_prompt()) continue;
    for (std::size_t branch = 0; branch < s->branches().size(); ++branch) feed.add(*s, branch, 1, pass);
  }
  EngineStep step;
  step.decoded_tokens = feed.n_rows();
  // Each step begins with the prompt after the one that the last step read in part.
  auto at = sequences_.upper_bound(last_read_);
  for (std::size_t i = 0; i < sequences_.size(); ++i, ++at) {
    if (at == sequences_.end()) at = sequences_.begin();
    Sequence& s = *at->second;
    if (s.paused || s.has_ended() || s.has_read_prompt()) continue;
    if (feed.n_rows() > 0 && feed.n_rows() >= budget) break;
    feed.add(s, 0, std::clamp<std::int64_t>(budget - feed.n_rows(), 1, kPrefillChunk), pass);
    last_read_ = at->first;
  }
  step.prompt_tokens = feed.n_rows() - step.decoded_tokens;
  if (!feed.fed.empty()) forward(feed, pass);

  for (at = sequences_.begin(); at != sequences_.end();) {
    Sequence& s = *at->second;
    const bool has_ended = s.has_ended();
    if (has_ended || s.report.token) {
      const std::uint64_t id = s.report.id;
      step.sequences.push_back(std::exchange(s.report, {id, {}, {}, {}, {}}));
    }
    at = has_ended ? sequences_.erase(at) : std::next(at);
  }
  return step;
}

/// Runs the pass, and chooses the next tokens.
void Engine::forward(const Feed& feed, Pass& pass) {
  std::vector<std::exception_ptr> errors(feed.drawn.size());
  const auto take_rows = [&](std::int64_t first, const Tensor& logits, bool of_prompts) {
    pass.for_rows(logits.rows(), 8 * logits.row_size(), [&](std::int64_t row) {
      const auto at = static_cast<std::size_t>(first + row);
      const Feed::Reader& reader = feed.drawn[at];
      if ((reader.position >= 0) != of_prompts) return;
      try {
        const std::span<const float> own(logits.row(row), static_cast<std::size_t>(logits.row_size()));
        if (of_prompts) {
          reader.sequence->take_prompt_logits(reader.position, own);
        } else {
          reader.sequence->take_logits(reader.sequence->branches()[reader.branch], own);
        }
      } catch (...) {
        errors[at] = std::current_exception();
      }
    });
  };
  pass.logits.receive = [&](std::int64_t first, const Tensor& logits) {
    // A sequence may end with its last row, so the other rows of its prompt come before.
    for (const bool of_prompts : {true, false}) take_rows(first, logits, of_prompts);
  };
  std::exception_ptr error;
  try {
    context_.model->forward(pass, {feed.ids, {}, feed.sources});
  } catch (...) {
    error = std::current_exception();
  }
  for (std::size_t i = 0; i < feed.drawn.size(); ++i) {
    if (errors[i]) feed.drawn[i].sequence->report.error = errors[i];
  }
  for (std::size_t i = 0; i < feed.fed.size(); ++i) {
    const Segment& segment = pass.segments[i];
    SequenceStep& report = feed.fed[i].sequence->report;
    if (error) report.error = error;
    if (!segment.failure) continue;
    const bool in_source = segment.failure->where.stack == Stack::encoder;
    const std::int64_t first = in_source ? pass.sources[static_cast<std::size_t>(segment.source)].first_row
                                         : segment.first_row - segment.position;
    report.error = std::make_exception_ptr(error_of({segment.failure->where, segment.failure->row - first}));
  }
  for (const Feed::Reader& reader : feed.drawn) {
    if (reader.branch > 0 || reader.position >= 0) continue;
    try {
      reader.sequence->finish_step();
    } catch (...) {
      reader.sequence->report.error = std::current_exception();
    }
  }
}

}  // namespace vitrine
