#include "model/head.h"

#include <algorithm>

#include "base/error.h"
#include "base/exchanged.h"
#include "model/finite.h"
#include "model/sites.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/route.h"

namespace vitrine {
namespace {

constexpr SiteId top(Site site, int segment = -1) { return {site, -1, segment}; }
constexpr std::int64_t kLogitElements = std::int64_t{1} << 24;  // 64 MiB of logits at a time, unless they are tapped
constexpr std::int64_t kElementsInto = std::int64_t{1} << 22;   // if the caller has memory for all of them
constexpr Site kSitesOfLogits[] = {Site::unembed_out, Site::logits, Site::loss};

/// The row of the pass that the i-th row of logits belongs to, without a loss.
std::int64_t row_of_logits(const Pass& p, std::int64_t i) {
  if (p.logits.rows == LogitRequest::Rows::range) return p.logits.begin + i;
  if (p.logits.rows == LogitRequest::Rows::chosen) return p.logits.chosen[static_cast<std::size_t>(i)];
  const Segment& s = p.segments[static_cast<std::size_t>(i)];
  return s.first_row + s.length - 1;
}

/// Passes the logits of the requested rows from `first` on to the receiver, except those of failed segments.
void deliver(Pass& p, std::int64_t first, std::span<const std::int64_t> numbers, const Tensor& logits) {
  if (!p.logits.receive) return;
  std::int64_t begin = 0;
  for (std::int64_t row = 0; row <= logits.rows(); ++row) {
    const bool is_end = row == logits.rows();
    if (!is_end && !segment_of(p.segments, numbers[static_cast<std::size_t>(row)]).failure) continue;
    if (row > begin) p.logits.receive(first + begin, logits.row_range(begin, row - begin));
    begin = row + 1;
  }
}

/// Whether a tap wants the values of all rows.
bool is_head_tapped(const Pass& p, const ModelConfig& c) {
  if (p.taps == nullptr) return false;
  return std::any_of(all_sites().begin(), all_sites().end(), [&](Site site) {
    if (info(site).place == SitePlace::final_norm) return p.wants(BlockSite{-1, c.stack()}(site));
    return info(site).in_head() && p.wants(top(site));
  });
}

/// The rows whose losses count, in ascending order; all rows if a receiver or a tap wants the others, too.
std::vector<std::int64_t> rows_with_loss(const Pass& p, const ModelConfig& c, std::int64_t n) {
  const LossRequest& loss = *p.training.loss;
  const bool needs_all = loss.weights.empty() || p.logits.receive || is_head_tapped(p, c);
  std::vector<std::int64_t> rows;
  if (!loss.logits.empty() && !p.logits.receive && !is_head_tapped(p, c)) {
    for (const LogitTerm& term : loss.logits) rows.push_back(term.row);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (needs_all || (at < loss.weights.size() && loss.weights[at] != 0.0f)) rows.push_back(i);
  }
  return rows;
}

/// The rows of the stream x whose logits are requested; if there is a loss, those that count.
Tensor requested_rows(Pass& p, const ModelConfig& c, const Tensor& x) {
  if (p.training.loss != nullptr) {
    const std::vector<std::int64_t> rows = rows_with_loss(p, c, x.rows());
    return static_cast<std::int64_t>(rows.size()) == x.rows() ? x : take_rows(p, x, rows);
  }
  switch (p.logits.rows) {
    case LogitRequest::Rows::none:
      return {};
    case LogitRequest::Rows::range:
      return row_range(p, x, p.logits.begin, p.logits.end - p.logits.begin);
    case LogitRequest::Rows::last_of_segments: {
      std::vector<std::int64_t> last;
      for (const Segment& s : p.segments) last.push_back(s.first_row + s.length - 1);
      return take_rows(p, x, last);
    }
    case LogitRequest::Rows::chosen:
      return take_rows(p, x, p.logits.chosen);
  }
  throw InternalError("forward", "unknown LogitRequest::Rows");
}

/// The number of the segment of a row.
std::size_t segment_number(Pass& p, std::int64_t row) {
  return static_cast<std::size_t>(&segment_of(p.segments, row) - p.segments.data());
}

/// Adds Σ weight · cross-entropy of rows `numbers` to the sums of their segments. Rows without a weight add nothing.
void add_to_segments(Pass& p, const Tensor& losses, std::span<const std::int64_t> numbers, std::vector<double>& sums) {
  const LossRequest& request = *p.training.loss;
  for (std::int64_t i = 0; i < losses.count(); ++i) {
    const std::int64_t row = numbers[static_cast<std::size_t>(i)];
    const float weight = request.weights.empty() ? 1.0f : request.weights[static_cast<std::size_t>(row)];
    if (weight == 0.0f) continue;
    sums[segment_number(p, row)] += static_cast<double>(weight) * static_cast<double>(losses.data[i]);
  }
}

/// What LossRequest::weigh makes of the sums of the segments, which are also added to p.training.result.
std::vector<float> weigh_segments(Pass& p, std::span<const double> sums) {
  for (const double sum : sums) p.training.result->cross_entropy += sum;
  return p.training.loss->weigh(sums);
}

/// What the gradients of a row are multiplied by, in addition to its weight.
struct SegmentFactors {
  enum class State : std::uint8_t { none, wanted, known };  ///< Wanted: the first logits have all rows.

  State state = State::none;
  std::vector<float> of_segments{};  ///< Empty: all 1.
};

/// Sets the gradients of the logits, which belong to rows `numbers`, to those given, or to the factors of the terms.
void backward_from_logits(Pass& p, const Tensor& logits, std::span<const std::int64_t> numbers) {
  if (!p.is_taped()) return;
  const Tensor gradient = p.grad(logits);  // the backward starts here
  const std::span<const float> given = p.training.loss->logit_gradients;
  const std::int64_t n = logits.row_size();
  for (std::int64_t i = 0; i < logits.rows() && !given.empty() && !p.shapes_only; ++i) {
    p.kernels.add(gradient.row(i), given.data() + numbers[static_cast<std::size_t>(i)] * n, n, gradient.row(i));
  }
  for (const LogitTerm& term : p.training.loss->logits) {
    for (std::int64_t i = 0; i < logits.rows() && !p.shapes_only; ++i) {
      if (numbers[static_cast<std::size_t>(i)] == term.row) gradient.row(i)[term.id] += term.factor;
    }
  }
}

/// Adds the losses of the logits, which belong to rows `numbers`, to p.training.result, unless they are in it already,
/// and sets the gradients of the losses.
void backward_from_rows(Pass& p, const Tensor& all_logits, std::span<const std::int64_t> numbers,
                        SegmentFactors& factors) {
  const LossRequest& request = *p.training.loss;
  if (gives_gradients(request)) return backward_from_logits(p, all_logits, numbers);
  LossResult& found = *p.training.result;
  const auto n_rows = static_cast<std::size_t>(all_logits.rows());
  std::vector<std::int32_t> targets;  // the last row of a pass may have none
  for (std::size_t i = 0; i < n_rows && numbers[i] < static_cast<std::int64_t>(request.targets.size()); ++i) {
    targets.push_back(request.targets[static_cast<std::size_t>(numbers[i])]);
  }
  const std::size_t n = targets.size();
  if (n == 0) return;
  const Tensor logits = n == n_rows ? all_logits : row_range(p, all_logits, 0, static_cast<std::int64_t>(n));
  const auto weight = [&](std::size_t i) {
    return request.weights.empty() ? 1.0f : request.weights[static_cast<std::size_t>(numbers[i])];
  };
  const Tensor losses = p.tap(top(Site::loss), next_token_loss(p, logits, targets, request.label_smoothing));
  if (factors.state == SegmentFactors::State::wanted) {
    std::vector<double> sums(p.segments.size(), 0.0);
    add_to_segments(p, losses, numbers, sums);
    factors = {SegmentFactors::State::known, weigh_segments(p, sums)};
  }
  if (p.is_taped()) p.grad(losses);  // the backward starts here
  for (std::size_t i = 0; i < n && !p.shapes_only; ++i) {
    if (weight(i) != 0.0f && factors.state == SegmentFactors::State::none) {
      found.cross_entropy += static_cast<double>(weight(i)) * static_cast<double>(losses.data[i]);
    }
    if (!p.is_taped()) continue;
    const float factor = factors.of_segments.empty() ? 1.0f : factors.of_segments[segment_number(p, numbers[i])];
    p.grad(losses).data[i] = request.scale * weight(i) * factor;
  }
  if (request.z_loss == 0.0f) return;
  if (request.weigh) throw InternalError("head", "expected no z_loss in a loss whose segments are weighed");
  const Tensor log_z = log_partition(p, logits);
  if (p.is_taped()) p.grad(log_z);
  for (std::size_t i = 0; i < n && !p.shapes_only; ++i) {
    const float z = log_z.data[i];
    found.z_squares += static_cast<double>(weight(i)) * static_cast<double>(z) * static_cast<double>(z);
    if (p.is_taped()) p.grad(log_z).data[i] = 2.0f * request.z_loss * z * request.scale * weight(i);
  }
}

/// norm(act(x · dense + bias)), if the head has a transform; then the rows of the head's width.
Tensor transform(Pass& p, const HeadConfig& c, const ModelParams& w, Tensor x) {
  if (c.transform) {
    const Tensor pre = p.tap(top(Site::head_pre), linear(p, w.head_dense, x));
    const Tensor post = p.tap(top(Site::head_post), activate(p, c.transform->activation, pre));
    x = norm(p, BlockSite{}(norms::head), c.transform->norm, w.head_norm, post);
  }
  return c.width ? linear(p, w.head_proj, x) : x;
}

/// `[n, vocab_size]` from normed rows `[n, d_model]`, which are rows `numbers` of the pass; in `into`, if it has data.
Tensor unembed(Pass& p, const ModelConfig& config, const ModelParams& w, const Tensor& x,
               std::span<const std::int64_t> numbers, const Tensor& into = {}) {
  const HeadConfig& c = config.head;
  Tensor logits = p.whole(linear(p, w.unembed, x, {}, c.tied ? &w.embed : nullptr, into), config.vocab_size);
  if (p.ledger != nullptr) p.ledger->name("unembed");
  logits = p.tap(top(Site::unembed_out), logits);
  check_finite(p, top(Site::unembed_out), logits, [&](std::int64_t t) { return numbers[static_cast<std::size_t>(t)]; });
  logits = scale(p, c.scale, logits);
  if (c.softcap) logits = softcap(p, *c.softcap, logits);
  logits = p.tap(top(Site::logits), logits);
  if (into.data == nullptr || logits.data == into.data) return logits;
  p.copy(logits.data, logits.count(), into.data);
  return into;
}

/// Σ weight · cross-entropy of each segment, computed in groups of rows and without the tape.
std::vector<double> losses_of_segments(Pass& p, const ModelConfig& c, const ModelParams& w, const Tensor& normed,
                                       std::span<const std::int64_t> numbers, std::int64_t group) {
  const Exchanged<Tape*> no_tape(p.training.tape, nullptr);
  const WithoutSites without_sites(p);
  const LossRequest& request = *p.training.loss;
  std::vector<double> sums(p.segments.size(), 0.0);
  for (std::int64_t first = 0; first < normed.rows(); first += group) {
    const ArenaScope scope(p.arena);
    const std::int64_t n = std::min(group, normed.rows() - first);
    const auto here = numbers.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n));
    std::vector<std::int32_t> targets;
    for (const std::int64_t row : here) targets.push_back(request.targets[static_cast<std::size_t>(row)]);
    const Tensor logits = unembed(p, c, w, row_range(p, normed, first, n), here);
    add_to_segments(p, next_token_loss(p, logits, targets, request.label_smoothing), here, sums);
  }
  return sums;
}

/// Rows of the stream after the last block, normed.
Tensor normed_rows(Pass& p, const ModelConfig& c, const ModelParams& w, const Tensor& rows) {
  const Tensor x = c.altup ? merge_streams(p, *c.altup, w.streams, rows) : rows;
  return norm(p, BlockSite{-1, c.stack()}(norms::final), c.final_norm, w.final_norm, x);
}

void deliver_hidden(Pass& p, const ModelConfig& c, const ModelParams& w, const Tensor& x) {
  if (!p.hidden_rows) return p.receive_hidden(normed_rows(p, c, w, x));
  const ArenaScope scope(p.arena);
  const Exchanged<RowsOfValue> chosen(p.rows, {c.stack(), *p.hidden_rows});
  p.receive_hidden(normed_rows(p, c, w, take_rows(p, x, *p.hidden_rows)));
}

/// The input of the unembedding, from rows of the stream.
Tensor unembed_in(Pass& p, const ModelConfig& c, const ModelParams& w, const Tensor& rows) {
  return p.tap(top(Site::unembed_in), transform(p, c.head, w, normed_rows(p, c, w, rows)));
}

/// Adds the losses of the next sentences to p.training.result, and sets their gradients.
void backward_from_next_sentences(Pass& p, const Tensor& logits) {
  const LossRequest& request = *p.training.loss;
  const Tensor losses = next_token_loss(p, logits, request.next_sentence);
  if (p.is_taped()) p.grad(losses);
  for (std::int64_t i = 0; i < losses.count() && !p.shapes_only; ++i) {
    p.training.result->next_sentence += static_cast<double>(losses.data[i]);
    if (p.is_taped()) p.grad(losses).data[i] = request.next_sentence_scale;
  }
}

/// The vector of each segment's first row, and what follows from it.
void run_pooler(Pass& p, const ModelConfig& c, const ModelParams& w, const Tensor& x) {
  const bool learns = p.training.loss != nullptr && !p.training.loss->next_sentence.empty();
  const bool is_wanted = p.receive_pooled || p.receive_next_sentence || learns || p.wants(top(Site::pooler_out)) ||
                         p.wants(top(Site::nsp_out));
  if (!c.pooler || !is_wanted) return;
  std::vector<std::int64_t> first;
  for (const Segment& s : p.segments) first.push_back(s.first_row);
  const Exchanged<RowsOfValue> chosen(p.rows, {c.stack(), first});
  const Tensor rows = take_rows(p, x, first);
  if (p.split != nullptr) p.split->share(rows);
  const Tensor normed = normed_rows(p, c, w, rows);
  const Tensor pooled = p.tap(top(Site::pooler_out), tanh(p, linear(p, w.pooler, normed)));
  if (p.receive_pooled) p.receive_pooled(pooled);
  if (!c.pooler->next_sentence) return;
  const Tensor logits = p.tap(top(Site::nsp_out), linear(p, w.nsp_head, pooled));
  if (p.receive_next_sentence) p.receive_next_sentence(logits);
  if (learns) backward_from_next_sentences(p, logits);
}

/// The outputs of a head that does not predict tokens, and their gradients.
void run_task(Pass& p, const ModelConfig& c, const ModelParams& w, const Tensor& x, std::span<const std::int32_t> ids) {
  const bool learns = p.training.loss != nullptr && !p.training.loss->output_gradients.empty();
  const bool is_wanted = p.receive_outputs || learns || p.wants(top(Site::head_pooled)) ||
                         p.wants(top(Site::head_dense)) || p.wants(top(Site::head_labels));
  if (!c.task || !is_wanted) return;
  using Rows = std::optional<std::span<const std::int64_t>>;
  const TaskHead::Pool pool = c.task->pool;
  const std::vector<std::int64_t> of_segments = task_rows(p, *c.task, ids);
  const bool reads_one = pool == TaskHead::Pool::first || pool == TaskHead::Pool::last;
  const Rows of_input = reads_one ? Rows(of_segments) : Rows();
  const Rows of_outputs = pool == TaskHead::Pool::none ? Rows() : Rows(of_segments);

  const Exchanged<RowsOfValue> of_norm(p.rows, {c.stack(), of_input});
  const Tensor rows = reads_one ? take_rows(p, x, of_segments) : x;
  if (p.split != nullptr) p.split->share(rows);
  const Tensor normed = normed_rows(p, c, w, rows);
  const Exchanged<RowsOfValue> of_head(p.rows, {c.stack(), of_outputs});
  const Tensor outputs = run_task_head(p, *c.task, w.task, normed);
  check_finite(p, top(Site::head_labels), outputs,
               [&](std::int64_t i) { return of_outputs ? of_segments[static_cast<std::size_t>(i)] : i; });
  if (p.receive_outputs) p.receive_outputs(outputs);
  if (!learns || !p.is_taped()) return;
  const Tensor gradient = p.grad(outputs);  // the backward starts here
  if (p.shapes_only) return;
  p.kernels.add(gradient.data, p.training.loss->output_gradients.data(), outputs.count(), gradient.data);
}

/// Taps the losses of the segments that are whole texts, if all their rows have logits: those whose logits begin at
/// row `first` of all logits, which belong to rows `numbers` of the pass.
void tap_losses(Pass& p, const Tensor& logits, std::int64_t first, std::span<const std::int64_t> numbers,
                std::span<const std::int32_t> ids) {
  const auto n_rows = static_cast<std::int64_t>(numbers.size());
  for (std::size_t i = 0; i < p.segments.size(); ++i) {
    const Segment& s = p.segments[i];
    const SiteId id = top(Site::loss, p.segments.size() == 1 ? -1 : static_cast<int>(i));
    if (s.position > 0 || s.length < 2 || !p.wants(id)) continue;
    const std::int64_t own = std::lower_bound(numbers.begin(), numbers.end(), s.first_row) - numbers.begin();
    const std::int64_t last = own + s.length - 1;  // it has no target
    if (last >= n_rows || numbers[static_cast<std::size_t>(last)] != s.first_row + s.length - 1) continue;
    const std::int64_t begin = std::max(own, first), n = std::min(last, first + logits.rows()) - begin;
    if (n < 1) continue;
    const auto targets =
        ids.subspan(static_cast<std::size_t>(s.first_row + 1 + begin - own), static_cast<std::size_t>(n));
    p.tap(id, next_token_loss(p, row_range(p, logits, begin - first, n), targets));
  }
}

/// Whether taps receive the logits of all rows at once.
bool taps_all_rows(const Pass& p) {
  const bool is_divisible = p.segments.size() == 1 && !p.is_taped() && p.training.loss == nullptr;
  return std::any_of(std::begin(kSitesOfLogits), std::end(kSitesOfLogits), [&](Site site) {
    return p.wants(top(site)) && !(is_divisible && p.taps->takes_groups(top(site)));
  });
}

/// The rows of logits that are computed together. The groups have about the same size, so that they can use the same
/// memory for their gradients.
std::int64_t group_size(std::int64_t n_rows, std::int64_t vocab_size, std::int64_t max_elements) {
  const std::int64_t most = std::max<std::int64_t>(1, max_elements / vocab_size);
  const std::int64_t n_groups = (n_rows + most - 1) / most;
  return (n_rows + n_groups - 1) / n_groups;
}

}  // namespace

void run_head(Pass& p, const ModelConfig& c, const ModelParams& w, const Tensor& x, std::span<const std::int32_t> ids) {
  if (p.logits.into.data != nullptr) p.arena.drop_released();
  if (p.receive_hidden && !c.encoder) deliver_hidden(p, c, w, x);
  run_pooler(p, c, w, x);
  run_task(p, c, w, x, ids);
  if (!c.has_head) return;
  const Tensor rows = requested_rows(p, c, x);
  if (rows.data == nullptr || rows.rows() == 0) return;
  if (p.split != nullptr) p.split->share(rows);
  std::vector<std::int64_t> numbers;  // of the rows in the pass
  if (p.training.loss != nullptr) numbers = rows_with_loss(p, c, x.rows());
  for (std::int64_t i = 0; i < rows.rows() && p.training.loss == nullptr; ++i) numbers.push_back(row_of_logits(p, i));
  const Exchanged<RowsOfValue> chosen(p.rows, {c.stack(), numbers});
  const Tensor normed = unembed_in(p, c, w, rows);

  // In a dry run the ledger has one entry for all rows.
  const bool at_once = taps_all_rows(p) || (p.shapes_only && p.ledger != nullptr);
  const std::int64_t most = p.logits.into.data != nullptr ? kElementsInto : kLogitElements;
  const std::int64_t group = at_once ? rows.rows() : group_size(rows.rows(), c.vocab_size, most);
  SegmentFactors factors;
  if (p.training.loss != nullptr && p.training.loss->weigh && !p.shapes_only) {
    if (p.is_taped() && rows.rows() <= group) {
      factors.state = SegmentFactors::State::wanted;
    } else {
      const std::vector<double> sums = losses_of_segments(p, c, w, normed, numbers, group);
      factors = {SegmentFactors::State::known, weigh_segments(p, sums)};
      if (!p.is_taped()) return;
    }
  }
  for (std::int64_t first = 0; first < rows.rows(); first += group) {
    const ArenaScope scope(p.arena);
    const std::span<const std::int64_t> here = std::span(numbers).subspan(static_cast<std::size_t>(first));
    p.rows.chosen = here;
    const std::size_t mark = p.is_taped() ? p.training.tape->mark() : 0;
    const std::int64_t n = std::min(group, rows.rows() - first);
    const Tensor into = p.logits.into.data != nullptr ? p.logits.into.row_range(first, n) : Tensor();
    const Tensor logits = unembed(p, c, w, row_range(p, normed, first, n), here, into);
    if (p.training.loss != nullptr) {
      backward_from_rows(p, logits, here, factors);
    } else if (p.wants(top(Site::loss)) && !is_bidirectional(c)) {
      tap_losses(p, logits, first, numbers, ids);
    }
    deliver(p, first, here, logits);
    if (p.is_taped()) p.training.tape->unwind(mark);
  }
}

Tensor head_logits(Pass& p, const ModelConfig& c, const ModelParams& w, const Tensor& rows,
                   std::span<const std::int64_t> numbers) {
  const Exchanged<RowsOfValue> chosen(p.rows, {c.stack(), numbers});
  return unembed(p, c, w, unembed_in(p, c, w, rows), numbers);
}

}  // namespace vitrine
