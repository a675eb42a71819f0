#include "train/score_pieces.h"

#include <numeric>

namespace vitrine {

std::vector<double> score_pieces(const Model& model, const Machine& machine, AppliedAdapters adapters,
                                 const Batch& batch) {
  std::vector<Segment> segments;
  for (const Batch::Piece& piece : batch.pieces) {
    segments.push_back({piece.first_row, piece.length});
    segments.back().adapters = adapters;
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
  model.forward(pass, {batch.inputs, {}, {}});
  return sums;
}

std::vector<PairScore> score_pairs(const Model& model, const Machine& machine, AppliedAdapters adapters,
                                   const Batch& batch) {
  const std::vector<double> nats = score_pieces(model, machine, adapters, batch);
  std::vector<PairScore> scores;
  for (std::size_t i = 0; i + 1 < nats.size(); i += 2) scores.push_back({-nats[i], -nats[i + 1]});
  return scores;
}

std::int64_t n_counted(const Batch& batch, std::size_t i) {
  const auto begin = batch.counts.begin() + batch.pieces[i].first_row;
  return std::accumulate(begin, begin + batch.pieces[i].length, std::int64_t{0});
}

}  // namespace vitrine
