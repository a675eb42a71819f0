#include "generate/choose_sampling.h"

namespace vitrine {

SamplingChoice choose_sampling(const SamplingOverrides& caller, const SamplingOverrides& checkpoint) {
  SamplingChoice choice;
  const auto choose = [&](const char* name, auto& value, const auto& own, const auto& stored) {
    if (own || stored) value = own ? *own : *stored;
    if (!own && stored) choice.from_checkpoint.emplace_back(name);
  };
  SamplingConfig& c = choice.config;
  choose("temperature", c.temperature, caller.temperature, checkpoint.temperature);
  choose("top_k", c.top_k, caller.top_k, checkpoint.top_k);
  choose("top_p", c.top_p, caller.top_p, checkpoint.top_p);
  choose("min_p", c.min_p, caller.min_p, checkpoint.min_p);
  choose("repeat_penalty", c.repeat_penalty, caller.repeat_penalty, checkpoint.repeat_penalty);
  const bool wants_to_sample = caller.temperature || caller.top_k || caller.top_p || caller.min_p;
  const bool greedy_by_default = checkpoint.greedy && !wants_to_sample;
  if (caller.greedy || greedy_by_default) c.temperature = 0;
  if (greedy_by_default && !caller.greedy) choice.from_checkpoint = {"greedy"};
  return choice;
}

std::vector<std::int32_t> stop_ids(const Checkpoint& checkpoint, const Tokenizer* tokenizer) {
  std::vector<std::int32_t> ids = checkpoint.stop_ids;
  if (tokenizer == nullptr) return ids;
  const std::vector<std::int32_t>& own = tokenizer->target().stop_ids();
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

}  // namespace vitrine
