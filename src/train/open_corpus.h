// The corpus that a run trains on, and the masks of its objective.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "data/masking.h"
#include "train/train_config.h"

namespace vitrine {

/// Pairs for an encoder–decoder, else a stream of tokens. `config` is the model's config.json, which has the decoder's
/// start. Throws BadInput if the corpus does not fit the model, and as PairCorpus and SplitCorpus do.
std::unique_ptr<TrainingData> open_corpus(const TrainConfig& run, const ModelConfig& model, const Json& config);

/// For objective = "masked". The mask is config.json's mask_token_id, else the tokenizer's [MASK] or <mask>; BadInput
/// if there is none.
MaskOptions mask_options(const TrainConfig& run, const ModelConfig& model, const Json& config,
                         const std::string& tokenizer);

}  // namespace vitrine
