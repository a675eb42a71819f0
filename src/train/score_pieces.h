// The losses of the pieces of a batch, without gradients.
#pragma once

#include <vector>

#include "data/dataset.h"
#include "model/model.h"
#include "train/preference.h"

namespace vitrine {

/// Σ cross-entropy over the targets of each piece that count, in nats. Throws NotFinite, Interrupted.
std::vector<double> score_pieces(const Model& model, const ExecutionContext& machine, const Modifiers& modifiers,
                                 const Batch& batch, BlockEvents* events = nullptr);

/// The log-probabilities of the answers of each pair of a batch.
std::vector<PairScore> score_pairs(const Model& model, const ExecutionContext& machine, const Modifiers& modifiers,
                                   const Batch& batch, BlockEvents* events = nullptr);

/// The lengths of the answers of pair `i` of a batch.
AnswerLengths lengths_of(const Batch& batch, std::size_t i);

}  // namespace vitrine
