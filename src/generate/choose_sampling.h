// How a text is sampled and where it ends, from what the caller wants and what the checkpoint says.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "generate/sampler.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

struct SamplingChoice {
  SamplingConfig config;
  std::vector<std::string> from_checkpoint;  ///< Names of the values that generation_config.json gave.
};

/// Each value is the caller's, else the checkpoint's, else SamplingConfig's. A greedy checkpoint is sampled only where
/// the caller gives a value for sampling.
SamplingChoice choose_sampling(const SamplingOverrides& caller, const SamplingOverrides& checkpoint);

/// The ids that end a text, of the checkpoint and of its tokenizer, which may be null.
std::vector<std::int32_t> stop_ids(const Checkpoint& checkpoint, const Tokenizer* tokenizer);

}  // namespace vitrine
