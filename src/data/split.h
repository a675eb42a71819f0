// A corpus in two parts: tokens to train on, and tokens held out for validation.
#pragma once

#include <optional>
#include <string>

#include "data/dataset.h"

namespace vitrine {

class SplitCorpus : public TrainingData {
 public:
  /// Holds out the shards in the folder `validation`, or, if that is "", the fraction options.validation of `train`.
  /// Throws as TokenShards and Dataset do, and BadInput if the two folders have different tokenizers.
  SplitCorpus(const std::string& train, const std::string& validation, const DatasetOptions& options,
              std::int64_t vocab_size);
  SplitCorpus(const SplitCorpus&) = delete;
  SplitCorpus& operator=(const SplitCorpus&) = delete;

  Batch batch(std::int64_t step) const override { return training_.batch(step); }
  std::int64_t validation_batches() const override;
  Batch validation_batch(std::int64_t index) const override { return held_out()->validation_batch(index); }
  const TokenInfo& info() const override { return shards_.info(); }
  std::int64_t training_tokens() const override { return training_.train_tokens(); }
  double samples_per_epoch() const override {
    return static_cast<double>(training_tokens()) / static_cast<double>(training_.seq_len());
  }
  double tokens_per_byte() const override;

  const TokenShards& shards() const { return shards_; }
  const Dataset& training() const { return training_; }
  /// The dataset whose validation part is held out; null if nothing is held out.
  const Dataset* held_out() const;
  const TokenShards& held_out_shards() const { return validation_shards_ ? *validation_shards_ : shards_; }

 private:
  TokenShards shards_;
  Dataset training_;
  std::optional<TokenShards> validation_shards_;
  std::optional<Dataset> validation_;
};

}  // namespace vitrine
