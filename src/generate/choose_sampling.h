// Chooses the sampling config and the stop ids of a text from the caller's options and the checkpoint's values.
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

/// Each value is the caller's if given, else the checkpoint's, else SamplingConfig's default. If the checkpoint's
/// config is greedy, tokens are sampled only if the caller gives a sampling option.
SamplingChoice choose_sampling(const SamplingOverrides& caller, const SamplingOverrides& checkpoint);

/// The ids that end a text, from the checkpoint and its tokenizer, which may be null.
std::vector<std::int32_t> stop_ids(const Checkpoint& checkpoint, const Tokenizer* tokenizer);

}  // namespace vitrine
