// Training on conversations, or on pairs of answers: each is a segment of its own, without padding.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conversation/sample_file.h"
#include "data/dataset.h"
#include "train/train_config.h"

namespace vitrine {

/// Appends a sample to a batch, as a piece: its inputs end with the one that predicts the last learned id.
void append_sample(const Sample& sample, Batch& batch);

/// The time as data.now has it.
std::string current_time();

/// The samples of a file in memory. Batches count its lines: sample number s is line s of the file, or, shuffled, of a
/// permutation for each epoch. An epoch may end within a batch.
class ConversationData final : public TrainingData {
 public:
  /// Reads data.conversations or data.pairs, and its validation; data.now must be set. Throws BadInput, naming the
  /// line, for what cannot be learned from.
  explicit ConversationData(const TrainConfig& config);

  Batch batch(std::int64_t step) const override;
  std::int64_t validation_batches() const override;
  Batch validation_batch(std::int64_t index) const override;
  const TokenInfo& info() const override { return info_; }
  std::int64_t training_tokens() const override { return training_.n_ids(); }
  double samples_per_epoch() const override { return static_cast<double>(training_.lines.size()); }
  double tokens_per_byte() const override { return 0; }  // unknown: lines have ids of templates
  std::uint64_t fingerprint() const override { return fingerprint_; }

  /// Throws BadInput if an id is beyond the model's vocabulary, Unsupported for an encoder–decoder.
  void check_with_model(const ModelConfig& model) const;
  /// For the run's first message: what it learns from.
  std::string plan(double epochs) const;
  std::size_t n_lines() const { return training_.lines.size() + validation_.lines.size(); }
  bool is_pairs() const { return is_pairs_; }
  /// The scores of all pairs by their number; `score` returns those of a batch.
  std::vector<PairScore> score_all(const std::function<std::vector<PairScore>(const Batch&)>& score) const;

 private:
  void append(const SampleFile& file, std::size_t line, std::int64_t number, Batch& batch) const;

  SampleFile training_, validation_;
  TokenInfo info_;
  std::int64_t batch_;
  std::uint64_t seed_;
  bool is_shuffled_, is_pairs_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace vitrine
