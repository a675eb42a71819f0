#include "generate/engine.h"

#include <algorithm>
#include <chrono>

#include "generate/engine_feed.h"
#include "generate/speculation.h"

namespace vitrine {

Engine::Engine(const GenerateContext& context)
    : context_(context), samplers_(static_cast<std::size_t>(context.pool->size())) {}
Engine::~Engine() = default;

std::uint64_t Engine::add(GenerateRequest request) {
  auto sequence = std::make_unique<Sequence>(context_, std::move(request));
  sequence->report.id = next_id_;
  sequences_.emplace(next_id_, std::move(sequence));
  return next_id_++;
}

void Engine::cancel(std::uint64_t id) {
  const auto at = sequences_.find(id);
  if (at == sequences_.end()) return;
  at->second->keep_prefix(true);
  sequences_.erase(at);
  if (context_.prefixes != nullptr) context_.prefixes->trim();
}

void Engine::pause(std::uint64_t id, bool paused) {
  if (const auto at = sequences_.find(id); at != sequences_.end()) at->second->paused = paused;
}

bool Engine::has_work() const {
  return std::any_of(sequences_.begin(), sequences_.end(), [](const auto& entry) { return !entry.second->paused; });
}

std::int64_t Engine::n_decoding() const {
  return std::count_if(sequences_.begin(), sequences_.end(), [](const auto& entry) {
    const Sequence& s = *entry.second;
    return !s.paused && !s.has_ended() && !s.is_reading();
  });
}

/// Adds the next tokens of a branch, at most `most`, and its source before the first of them.
void EngineFeed::add(Sequence& sequence, std::size_t branch, std::int64_t most, Pass& pass) {
  Branch& b = sequence.branches()[branch];
  const auto pending = Sequence::pending(b, most), proposed = sequence.proposed();
  const auto first_row = static_cast<std::int64_t>(ids.size());
  pass.segments.push_back({first_row, std::ssize(pending) + std::ssize(proposed), b.cache->length(), b.cache.get()});
  pass.segments.back().modifiers = sequence.modifiers();
  if (const auto source = sequence.pending_source(); !source.empty()) {
    pass.segments.back().source = static_cast<int>(pass.sources.size());
    pass.sources.push_back({static_cast<std::int64_t>(sources.size()), static_cast<std::int64_t>(source.size())});
    pass.sources.back().modifiers = sequence.modifiers();
    sources.insert(sources.end(), source.begin(), source.end());
  }
  ids.insert(ids.end(), pending.begin(), pending.end());
  ids.insert(ids.end(), proposed.begin(), proposed.end());
  sequence.has_begun = true;
  fed.push_back({&sequence, branch});
  taps.push_back(sequence.taps());
  add_rows(sequence, branch, pass);
}

/// Adds the rows of the last segment that its sequence receives.
void EngineFeed::add_rows(Sequence& sequence, std::size_t branch, Pass& pass) {
  const Segment& s = pass.segments.back();
  if (!sequence.proposed().empty()) {
    for (std::int64_t row = 0; row < s.length; ++row) {
      drawn.push_back({&sequence, branch, -1, row});
      pass.logits.chosen.push_back(s.first_row + row);
    }
    return;
  }
  const std::int64_t begin = s.position - sequence.branches()[branch].first, end = begin + s.length;
  const std::int64_t first = std::max(begin, sequence.first_row());
  const auto last = std::ssize(sequence.branches()[branch].ids) - 1;
  const auto row_of = [&](std::int64_t id) { return s.first_row + id - begin; };
  if (sequence.receives_hidden()) {
    if (first >= end) return;
    if (!pass.hidden_rows) pass.hidden_rows.emplace();
    for (std::int64_t i = first; i < end; ++i) pass.hidden_rows->push_back(row_of(i));
    hidden.push_back({&sequence, pass.segments.size() - 1, first, end - first});
    return;
  }
  for (std::int64_t i = first; i < std::min(end, last); ++i) {
    drawn.push_back({&sequence, branch, i});
    pass.logits.chosen.push_back(row_of(i));
  }
  if (end <= last) return;
  drawn.push_back({&sequence, branch});
  pass.logits.chosen.push_back(row_of(last));
}

EngineStep Engine::step(std::int64_t budget) {
  Pass pass = context_.make_pass(arena_);
  pass.logits.rows = LogitRequest::Rows::chosen;
  EngineFeed feed;
  feed_decoding(feed, pass);
  EngineStep step;
  step.decoded_tokens = feed.n_rows();
  const std::size_t first_reading = feed.fed.size();
  feed_reading(feed, pass, budget);
  for (std::size_t i = first_reading; i < feed.fed.size(); ++i) {
    if (feed.fed[i].sequence->has_forced()) step.decoded_tokens += pass.segments[i].length;
  }
  step.prompt_tokens = feed.n_rows() - step.decoded_tokens;
  const auto start = std::chrono::steady_clock::now();
  if (!feed.fed.empty()) step.speculation = forward(feed, pass);
  if (context_.speculation != nullptr) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    RowCosts& costs = context_.speculation->costs;
    if (first_reading == feed.fed.size()) costs.measure(feed.n_rows(), seconds.count());
    if (first_reading == 0) costs.measure_prompt(feed.n_rows(), seconds.count());
  }
  step.decoded_tokens -= step.speculation.drafted - step.speculation.accepted;

  const std::size_t n_before = sequences_.size();
  for (auto at = sequences_.begin(); at != sequences_.end();) {
    Sequence& s = *at->second;
    const bool has_ended = s.has_ended();
    s.report_prompt();
    if (s.report.result) s.keep_prefix(true);
    for (SequenceStep& earlier : s.take_earlier_reports()) step.sequences.push_back(std::move(earlier));
    if (has_ended || !s.report.tokens.empty() || !s.report.prompt_logprobs.empty()) {
      const std::uint64_t id = s.report.id;
      step.sequences.push_back(std::exchange(s.report, {id, {}, {}, {}, {}, {}}));
    }
    at = has_ended ? sequences_.erase(at) : std::next(at);
  }
  if (context_.prefixes != nullptr && sequences_.size() < n_before) context_.prefixes->trim();
  return step;
}

/// Logits of consecutive rows of a step, of which either the last of sequences or the others are taken.
struct RowsOfLogits {
  std::int64_t first;
  const Tensor& rows;
  bool is_last;
};

void Engine::take_rows(const EngineFeed& feed, Pass& pass, const RowsOfLogits& logits,
                       std::vector<std::exception_ptr>& errors) {
  std::vector<std::size_t> numbers;
  std::vector<std::int64_t> begins;  // of what a thread takes: a row, or those of a sequence with proposals
  for (std::int64_t i = 0; i < logits.rows.rows(); ++i) {
    const auto number = static_cast<std::size_t>(logits.first + i);
    const EngineFeed::Reader& reader = feed.drawn[number];
    if ((reader.position < 0) != logits.is_last) continue;
    if (numbers.empty() || reader.row <= 0) begins.push_back(std::ssize(numbers));
    numbers.push_back(number);
  }
  if (numbers.empty()) return;
  begins.push_back(std::ssize(numbers));
  const auto take_row = [&](std::int64_t i, Sampler& sampler) {
    const std::size_t number = numbers[static_cast<std::size_t>(i)];
    const EngineFeed::Reader& reader = feed.drawn[number];
    const float* const row = logits.rows.row(static_cast<std::int64_t>(number) - logits.first);
    const std::span<const float> own(row, static_cast<std::size_t>(logits.rows.row_size()));
    try {
      if (reader.row >= 0) {
        reader.sequence->take_row(reader.row, own, sampler);
      } else if (reader.position >= 0) {
        reader.sequence->take_prompt_logits(reader.position, own);
      } else {
        reader.sequence->take_logits(reader.sequence->branches()[reader.branch], own, sampler);
      }
    } catch (...) {
      errors[number] = std::current_exception();
    }
  };
  const std::int64_t grain = Pass::kOperationsPerThread / (8 * logits.rows.row_size() + 1) + 1;
  pass.parallel_for(std::ssize(begins) - 1, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    const std::int64_t first = begins[static_cast<std::size_t>(begin)], last = begins[static_cast<std::size_t>(end)];
    for (std::int64_t i = first; i < last; ++i) take_row(i, samplers_[static_cast<std::size_t>(thread)]);
  });
}

void Engine::deliver_hidden(const EngineFeed& feed, const Pass& pass, const Tensor& rows) {
  std::int64_t first = 0;
  for (const EngineFeed::Hidden& own : feed.hidden) {
    const Tensor part = rows.row_range(first, own.count);
    first += own.count;
    if (pass.segments[own.segment].failure) continue;
    try {
      own.sequence->take_hidden(own.position, part);
    } catch (...) {
      own.sequence->report.error = std::current_exception();
    }
  }
}

/// Runs the pass, and chooses the next tokens. Returns what became of proposed ids.
SpeculationCounts Engine::forward(const EngineFeed& feed, Pass& pass) {
  std::vector<std::exception_ptr> errors(feed.drawn.size());
  std::vector<bool> was_reading;
  for (const EngineFeed::Reader& reader : feed.fed) was_reading.push_back(reader.sequence->is_reading());
  const auto receive_logits = [&](std::int64_t first, const Tensor& logits) {
    // A sequence may end with its last row, so the other rows come before.
    for (const bool is_last : {false, true}) take_rows(feed, pass, {first, logits, is_last}, errors);
  };
  if (!feed.drawn.empty()) pass.logits.receive = receive_logits;
  if (!feed.hidden.empty()) pass.receive_hidden = [&](const Tensor& rows) { deliver_hidden(feed, pass, rows); };
  SegmentTaps taps(feed.taps);
  if (std::any_of(feed.taps.begin(), feed.taps.end(), [](const SequenceTaps* own) { return own != nullptr; })) {
    pass.taps = &taps;
  }
  std::exception_ptr error;
  try {
    context_.model->forward(pass, {feed.ids, {}, feed.sources});
  } catch (...) {
    error = std::current_exception();
  }
  for (std::size_t i = 0; i < feed.drawn.size(); ++i) {
    if (errors[i]) feed.drawn[i].sequence->report.error = errors[i];
  }
  SpeculationCounts speculation;
  for (std::size_t i = 0; i < feed.fed.size(); ++i) {
    speculation.add(end_pass(feed, pass, {i, was_reading[i], error}));
  }
  for (const EngineFeed::Reader& reader : feed.drawn) {
    if (reader.branch > 0 || reader.position >= 0 || reader.row > 0) continue;
    try {
      reader.sequence->finish_step();
    } catch (...) {
      reader.sequence->report.error = std::current_exception();
    }
  }
  return speculation;
}

/// Ends the pass for one of its segments. A pass whose row of a proposed id is not finite has no result for the
/// sequence, which then continues without proposals; as all of its rows may have failed, that may end the whole pass.
SpeculationCounts Engine::end_pass(const EngineFeed& feed, const Pass& pass, const EndedSegment& ended) {
  const Segment& segment = pass.segments[ended.number];
  Sequence& sequence = *feed.fed[ended.number].sequence;
  const bool has_failed = ended.error || segment.failure;
  const bool has_proposals = !sequence.proposed().empty();
  const SpeculationCounts counts = sequence.end_pass(has_failed);
  if (!has_failed) sequence.keep_prefix(ended.was_reading && !sequence.is_reading());
  if (segment.failure && has_proposals && segment.failure->row > segment.first_row) return counts;
  if (ended.error) sequence.report.error = ended.error;
  if (!segment.failure) return counts;
  const bool in_source = segment.failure->where.stack == Stack::encoder;
  const std::int64_t first = in_source ? pass.sources[static_cast<std::size_t>(segment.source)].first_row
                                       : segment.first_row - segment.position;
  sequence.report.error = std::make_exception_ptr(error_of({segment.failure->where, segment.failure->row - first}));
  return counts;
}

}  // namespace vitrine
