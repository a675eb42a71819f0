// Texts that a model generates during training.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "data/shards.h"
#include "generate/generator.h"
#include "train/train_config.h"

namespace vitrine {

class Samples {
 public:
  /// Without a prompt, texts begin as documents of `corpus` do. Throws BadInput if the prompt fills the model's
  /// context.
  Samples(const TrainConfig& config, std::unique_ptr<const Tokenizer> tokenizer, const TokenInfo& corpus,
          const ModelConfig& model);

  /// The prompt and its continuation by `model`. Throws as generate() does.
  std::string generate_one(const Model& model, AppliedAdapters adapters, ThreadPool& pool, const Kernels& k,
                           const std::atomic<bool>* interrupt, CallerPoll* poll) const;

 private:
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::string prompt_;
  GenerateRequest request_;
};

/// Checks that the tokenizer at `path`, which may be "", fits the data and can be a part of checkpoints. Nothing if the
/// config wants no samples. Throws BadInput.
std::optional<Samples> open_samples(const TrainConfig& config, const std::string& path, const TrainingData& data,
                                    const ModelConfig& model);

}  // namespace vitrine
