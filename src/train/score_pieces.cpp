#include "train/score_pieces.h"

#include <numeric>

namespace vitrine {

std::vector<double> score_pieces(const Model& model, const ExecutionContext& machine, const Modifiers& modifiers,
                                 const Batch& batch, BlockEvents* events) {
  std::vector<Segment> segments;
  for (const Batch::Piece& piece : batch.pieces) {
    segments.push_back({piece.first_row, piece.length});
    segments.back().modifiers = modifiers;
  }
  const std::vector<float> weights(batch.counts.begin(), batch.counts.end());
  LossRequest loss{batch.targets, weights};
  std::vector<double> sums;
  loss.weigh = [&](std::span<const double> of_segments) {
    sums.assign(of_segments.begin(), of_segments.end());
    return std::vector<float>{};
  };
  LossResult found;
  Pass pass{machine, segments};
  pass.training = {nullptr, &loss, &found};
  pass.training.blocks = events;
  model.forward(pass, {batch.inputs, {}, {}});
  return sums;
}

std::vector<PairScore> score_pairs(const Model& model, const ExecutionContext& machine, const Modifiers& modifiers,
                                   const Batch& batch, BlockEvents* events) {
  const std::vector<double> nats = score_pieces(model, machine, modifiers, batch, events);
  std::vector<PairScore> scores;
  for (std::size_t i = 0; i + 1 < nats.size(); i += 2) scores.push_back({-nats[i], -nats[i + 1]});
  return scores;
}

AnswerLengths lengths_of(const Batch& batch, std::size_t i) {
  const auto n_counted = [&](std::size_t piece) {
    const auto begin = batch.counts.begin() + batch.pieces[piece].first_row;
    return std::accumulate(begin, begin + batch.pieces[piece].length, std::int64_t{0});
  };
  std::int64_t all = 0;
  for (std::size_t pair = 0; pair < batch.pairs.size(); ++pair) all += n_counted(2 * pair);
  return {n_counted(2 * i), n_counted(2 * i + 1), static_cast<double>(all) / static_cast<double>(batch.pairs.size())};
}

}  // namespace vitrine
