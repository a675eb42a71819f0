#include "train/learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/fingerprint.h"
#include "train/score_pieces.h"

namespace vitrine {
namespace {

/// Some whole samples of a batch.
struct Part {
  std::vector<Segment> segments, sources;
  std::span<const std::int32_t> inputs, targets, source_ids;
  std::vector<float> weights;
  std::size_t first_piece = 0;

  Tokens tokens() const { return {inputs, {}, source_ids}; }
};

/// Part number `i` of `n`: the pieces in equal parts of the rows, or of the pairs.
Part part_of(const Batch& batch, std::int64_t i, std::int64_t n) {
  const bool has_sources = !batch.source_pieces.empty();
  const bool by_piece = has_sources || batch.is_ragged;
  const auto n_rows = static_cast<std::int64_t>(batch.inputs.size());
  const auto n_pieces = static_cast<std::int64_t>(batch.pieces.size());
  const auto is_in_part = [&](std::int64_t piece) {
    if (by_piece) return piece * n / n_pieces == i;
    return batch.pieces[static_cast<std::size_t>(piece)].first_row / (n_rows / n) == i;
  };
  Part part;
  std::int64_t rows = 0, source_rows = 0, first = 0, first_source = 0;
  for (std::int64_t piece = 0; piece < n_pieces; ++piece) {
    if (!is_in_part(piece)) continue;
    const Batch::Piece& own = batch.pieces[static_cast<std::size_t>(piece)];
    if (rows == 0) {
      first = own.first_row;
      part.first_piece = static_cast<std::size_t>(piece);
    }
    part.segments.push_back({rows, own.length});
    rows += own.length;
    if (!has_sources) continue;
    const Batch::Piece& source = batch.source_pieces[static_cast<std::size_t>(piece)];
    if (source_rows == 0) first_source = source.first_row;
    part.segments.back().source = static_cast<int>(part.sources.size());
    part.sources.push_back({source_rows, source.length});
    source_rows += source.length;
  }
  const auto begin = static_cast<std::size_t>(first), count = static_cast<std::size_t>(rows);
  part.inputs = std::span(batch.inputs).subspan(begin, count);
  part.targets = std::span(batch.targets).subspan(begin, count);
  part.weights.assign(batch.counts.begin() + first, batch.counts.begin() + first + rows);
  part.source_ids =
      std::span(batch.sources).subspan(static_cast<std::size_t>(first_source), static_cast<std::size_t>(source_rows));
  return part;
}

/// A number that differs for batches that differ.
std::uint64_t fingerprint_of(const Batch& batch) {
  Fingerprint f;
  f.add(std::as_bytes(std::span(batch.inputs)));
  f.add(std::as_bytes(std::span(batch.targets)));
  f.add(std::as_bytes(std::span(batch.counts)));
  f.add(std::as_bytes(std::span(batch.sources)));
  f.add(std::as_bytes(std::span(batch.pairs)));
  return f.value();
}

}  // namespace

Learner::Learner(const Trainable& trainable, Optimizer& optimizer, const StepOptions& options, ThreadPool& pool,
                 const Kernels& kernels, const std::atomic<bool>* interrupt, CallerPoll* poll)
    : trainable_(trainable),
      optimizer_(optimizer),
      options_(options),
      pool_(pool),
      kernels_(kernels),
      interrupt_(interrupt),
      poll_(poll),
      tape_(gradients_),
      begin_(trainable.first_learning_block()) {
  for (const TrainParam& param : trainable.params()) gradients_.add(*param.param);
}

void Learner::share(Ranks& ranks, Shard shard, const std::string& data) {
  if (ranks.is_alone()) return;
  if (shard != Shard::none && trainable_.adapter() != nullptr) {
    throw Unsupported("--shard", "expected none for an adapter, whose state is small, got {}", name_of(shard));
  }
  ranks_ = &ranks;
  shard_ = shard;
  data_ = data;
  slices_.emplace(trainable_.params(), ranks.size());
  exchange_.emplace(ranks, gradients_, *slices_, options_.micro_batches, shard == Shard::none);
  if (shard != Shard::none) optimizer_.divide(*slices_, ranks);
}

void Learner::prefer(const PreferenceOptions& options, std::vector<PairScore> references) {
  preference_ = options;
  references_ = std::move(references);
}

PairLoss Learner::loss_of_pair(const Batch& batch, std::size_t pair, const PairScore& score) const {
  const auto number = static_cast<std::size_t>(batch.pairs[pair]);
  const PairScore reference = references_.empty() ? PairScore{} : references_[number];
  return pair_loss(*preference_, score, reference, lengths_of(batch, pair));
}

std::vector<PairScore> Learner::score_answers(const Batch& batch, bool with_adapter) {
  return score_pairs(trainable_.model(), machine(), with_adapter ? trainable_.adapters() : AppliedAdapters{}, batch);
}

PairSums Learner::compare(const Batch& batch) {
  const std::vector<PairScore> scores = score_answers(batch, true);
  PairSums sums;
  for (std::size_t i = 0; i < scores.size(); ++i) sums.add(loss_of_pair(batch, i, scores[i]));
  return sums;
}

Learner::Step Learner::learn(const Batch& batch, std::int64_t step, const TapsOf& taps) {
  Step result;
  result.targets = batch.n_counted();
  if (result.targets == 0) {
    result.skipped = "no target of its batch counts";
  } else {
    StepLosses losses;
    losses.parts.resize(static_cast<std::size_t>(options_.micro_batches));
    losses.pairs.resize(batch.pairs.size());
    result.skipped = learn_nodes(batch, step, taps, static_cast<double>(result.targets), losses);
    if (result.skipped.empty()) add_losses(losses, result);
  }
  if (!result.skipped.empty()) result.loss = result.grad_norm = std::numeric_limits<double>::quiet_NaN();
  return result;
}

void Learner::update(Step& step, double lr) {
  if (!step.skipped.empty()) return;
  std::vector<const float*> grads;
  for (const TrainParam& param : trainable_.params()) grads.push_back(gradients_.of(*param.param).data);
  const StepReport report = optimizer_.step(pool_, kernels_, trainable_.params(), grads, lr);
  step.grad_norm = report.grad_norm;
  if (report.skipped) {
    step.skipped = "the gradient of " + report.not_finite + " is not finite";
  } else if (shard_ != Shard::none) {
    gather_weights();
  }
}

/// Computes the gradient of a micro-batch, from zero, and its losses.
void Learner::learn_part(const Batch& batch, std::int64_t step, std::int64_t number, const TapsOf& taps,
                         double n_targets, StepLosses& losses, std::function<void(Stack, int)> learned) {
  const auto n_pieces = static_cast<double>(batch.pieces.size());
  const Part part = part_of(batch, number, options_.micro_batches);
  LossRequest loss{part.targets, part.weights, static_cast<float>(1.0 / n_targets)};
  LossResult found;
  loss.label_smoothing = static_cast<float>(options_.label_smoothing);
  loss.z_loss = static_cast<float>(options_.z_loss);
  loss.balance = static_cast<float>(options_.balance_loss);
  loss.balance_over_layers = options_.balance == StepOptions::Balance::hugging_face;
  loss.router_z = static_cast<float>(options_.router_z_loss);
  loss.router_scale = static_cast<float>(1.0 / n_pieces);
  if (preference_) {
    loss.scale = static_cast<float>(1.0 / static_cast<double>(batch.pairs.size()));
    // The gradient of a pair's loss is that of its answers' cross-entropies, each times a number.
    loss.weigh = [&](std::span<const double> nats) {
      std::vector<float> factors;
      for (std::size_t s = 0; s + 1 < nats.size(); s += 2) {
        const std::size_t number_of_pair = (part.first_piece + s) / 2;
        const PairLoss pair = loss_of_pair(batch, number_of_pair, {-nats[s], -nats[s + 1]});
        losses.pairs[number_of_pair] = pair;
        factors.push_back(static_cast<float>(-pair.by_chosen));
        factors.push_back(static_cast<float>(-pair.by_rejected));
      }
      return factors;
    };
  }
  tape_.clear();  // the last pass may have thrown
  sum_.begin(pool_);
  Taps* const part_taps = taps ? taps(number) : nullptr;
  Pass pass{machine(), part.segments, {}, part_taps};
  pass.sources = part.sources;
  const Dropout dropout{static_cast<float>(options_.dropout), options_.seed, static_cast<std::uint32_t>(step),
                        static_cast<std::uint32_t>(number)};
  for (Segment& s : pass.segments) s.adapters = trainable_.adapters();
  for (Segment& s : pass.sources) s.adapters = trainable_.adapters();
  pass.training = {&tape_, &loss, &found, options_.recompute, dropout};
  pass.training.adapter_dropout = static_cast<float>(options_.adapter_dropout);
  if (part_taps == nullptr) pass.training.begin = begin_;  // taps may want any gradient
  pass.training.learned = std::move(learned);
  trainable_.model().learn(pass, part.tokens());
  Losses& own = losses.parts[static_cast<std::size_t>(number)];
  own.cross_entropy = found.cross_entropy / n_targets;
  own.z_squares = found.z_squares / n_targets;
  own.balance = loss.balance_over_layers
                    ? found.balance_of_layers() * static_cast<double>(part.segments.size()) / n_pieces
                    : found.balance_sum / n_pieces;
  own.router_z = found.router_z_sum / n_pieces;
}

/// Puts the sum of the gradients of some micro-batches into the gradients.
void Learner::learn_node(const TreeNode& node, const Batch& batch, std::int64_t step, const TapsOf& taps,
                         double n_targets, StepLosses& losses) {
  sum_.clear();
  for (std::int64_t i = node.first; i < node.end; ++i) {
    learn_part(batch, step, i, taps, n_targets, losses);
    sum_.add(pool_, kernels_);
  }
  sum_.finish(pool_, kernels_);
}

/// The same for a node of this rank, whose buckets are sent as soon as the backward of its last micro-batch has
/// completed them.
void Learner::learn_shared_node(std::size_t number, const Batch& batch, std::int64_t step, const TapsOf& taps,
                                double n_targets, StepLosses& losses) {
  const TreeNode& node = exchange_->nodes()[number];
  sum_.clear();
  for (std::int64_t i = node.first; i + 1 < node.end; ++i) {
    learn_part(batch, step, i, taps, n_targets, losses);
    sum_.add(pool_, kernels_);
  }
  const auto send_down_to = [&](std::size_t bucket) {
    if (bucket >= exchange_->unsent()) return;
    sum_.finish_last(pool_, kernels_, slices_->bucket(bucket).first, slices_->bucket(exchange_->unsent() - 1).end);
    exchange_->send_down_to(number, bucket);
  };
  const auto learned = [&](Stack stack, int layer) {
    const auto bucket = stack != Stack::encoder ? slices_->bucket_of_layer(layer) : std::nullopt;
    if (bucket) send_down_to(*bucket);
  };
  learn_part(batch, step, node.end - 1, taps, n_targets, losses, learned);
  send_down_to(0);
  sum_.clear();
}

/// Computes the gradients and losses of all micro-batches. Returns why the step is skipped, or "".
std::string Learner::learn_nodes(const Batch& batch, std::int64_t step, const TapsOf& taps, double n_targets,
                                 StepLosses& losses) {
  std::string failure;
  const auto learn_one = [&](auto&& learn_it) {
    if (!failure.empty()) return;
    try {
      learn_it();
    } catch (const NotFinite& e) {
      failure = e.what();
    }
  };
  if (ranks_ == nullptr) {
    learn_one([&] { learn_node({0, options_.micro_batches}, batch, step, taps, n_targets, losses); });
    return failure;
  }
  // A rank that fails sends its messages nevertheless: the others wait for them.
  exchange_->begin();
  const std::vector<TreeNode>& nodes = exchange_->nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    learn_one([&] { learn_shared_node(n, batch, step, taps, n_targets, losses); });
    exchange_->send_down_to(n, 0);
    if (n + 1 < nodes.size()) exchange_->keep(n);
  }
  failure = gather_losses(batch, failure, losses);
  if (failure.empty()) {
    exchange_->add(pool_, kernels_);
  } else {
    exchange_->drop();
  }
  return failure;
}

/// Gives all ranks the losses of all micro-batches, and the first failure, if there is one. Throws BadInput if the
/// ranks have different batches.
std::string Learner::gather_losses(const Batch& batch, const std::string& failure, StepLosses& losses) {
  const auto gather = [&](auto& values) {
    std::vector<std::int64_t> bounds;
    const auto n_parts = options_.micro_batches, n = static_cast<std::int64_t>(values.size());
    for (int r = 0; r < ranks_->size(); ++r) {
      bounds.push_back(leaves_of(n_parts, r, ranks_->size()).first * n / n_parts *
                       static_cast<std::int64_t>(sizeof(values[0])));
    }
    const auto bytes = std::as_writable_bytes(std::span(values));
    bounds.push_back(static_cast<std::int64_t>(bytes.size()));
    ranks_->wait(ranks_->gather(bytes, bounds, Channel::control));
  };
  gather(losses.parts);
  gather(losses.pairs);
  struct Outcome {
    std::uint64_t batch = 0;
    std::array<char, 256> failure{};
  };
  Outcome own{fingerprint_of(batch), {}};
  std::copy_n(failure.begin(), std::min(failure.size(), own.failure.size() - 1), own.failure.begin());
  const std::vector<Outcome> all = ranks_->gather_values<Outcome>({&own, 1});
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].batch == all[0].batch) continue;
    exchange_->drop();
    ranks_->together(
        [&] { throw BadInput(data_, "{} reads other tokens there than rank 0", ranks_->name(static_cast<int>(r))); });
  }
  for (const Outcome& outcome : all) {
    if (outcome.failure[0] != '\0') return outcome.failure.data();
  }
  return "";
}

/// Adds the losses by their numbers.
void Learner::add_losses(const StepLosses& losses, Step& result) const {
  double z_squares = 0, balance = 0, router_z = 0;
  for (const Losses& part : losses.parts) {
    result.loss += part.cross_entropy;
    z_squares += part.z_squares;
    balance += part.balance;
    router_z += part.router_z;
  }
  if (preference_) {
    for (const PairLoss& pair : losses.pairs) result.pairs.add(pair);
    result.loss = result.pairs.loss / static_cast<double>(result.pairs.n);
    if (!std::isfinite(result.loss)) result.skipped = "its loss is not finite";
  }
  result.auxiliary = options_.z_loss * z_squares + options_.balance_loss * balance + options_.router_z_loss * router_z;
}

/// Every rank receives the weights that the others have updated.
void Learner::gather_weights() {
  Tickets tickets;
  for (std::size_t b = 0; b < slices_->buckets(); ++b) {
    const Places bucket = slices_->bucket(b);
    const std::int64_t size = size_of(trainable_.dtype());
    std::vector<std::int64_t> bounds;
    for (int r = 0; r < ranks_->size(); ++r) bounds.push_back((slices_->slice(b, r).first - bucket.first) * size);
    bounds.push_back(bucket.size() * size);
    const std::span<std::byte> weights = trainable_.weights().subspan(static_cast<std::size_t>(bucket.first * size),
                                                                      static_cast<std::size_t>(bucket.size() * size));
    const Tickets more = ranks_->gather(weights, bounds, Channel::weights);
    tickets.insert(tickets.end(), more.begin(), more.end());
  }
  ranks_->wait(tickets);
}

double Learner::score(const Batch& batch) {
  const Part part = part_of(batch, 0, 1);
  LossRequest loss{part.targets, part.weights};
  LossResult found;
  Pass pass{machine(), part.segments};
  pass.sources = part.sources;
  for (Segment& s : pass.segments) s.adapters = trainable_.adapters();
  for (Segment& s : pass.sources) s.adapters = trainable_.adapters();
  pass.training = {nullptr, &loss, &found};
  trainable_.model().forward(pass, part.tokens());
  return found.cross_entropy;
}

}  // namespace vitrine
