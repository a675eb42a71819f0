#include "train/samples.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {

Samples::Samples(const TrainConfig& config, std::unique_ptr<const Tokenizer> tokenizer, const TokenInfo& corpus,
                 const ModelConfig& model)
    : tokenizer_(std::move(tokenizer)), prompt_(config.log.sample_prompt) {
  request_.prompt = tokenizer_->encode(prompt_, SpecialTokens::apply);
  if (request_.prompt.empty()) request_.prompt = {corpus.document_token.value_or(0)};
  const std::int64_t left = model.max_seq_len - static_cast<std::int64_t>(request_.prompt.size());
  if (left <= 0) {
    throw BadInput("log.sample_prompt", "expected fewer tokens than the model's context of {}, got {}",
                   model.max_seq_len, request_.prompt.size());
  }
  request_.max_tokens = std::min(config.log.sample_tokens, left);
  request_.seed = config.train.seed;
  request_.stop_ids = tokenizer_->stop_ids();
}

std::string Samples::generate_one(const Model& model, AppliedAdapters adapters, ThreadPool& pool, const Kernels& k,
                                  const std::atomic<bool>* interrupt, CallerPoll* poll) const {
  GenerateContext context{&model, &pool, &k, tokenizer_.get()};
  context.interrupt = interrupt;
  context.poll = poll;
  context.modifiers.adapters = adapters;
  return prompt_ + generate(context, std::span(&request_, 1)).front().text;
}

std::optional<Samples> open_samples(const TrainConfig& c, const std::string& path, const TrainingData& data,
                                    const ModelConfig& model) {
  const bool samples = c.log.sample_every > 0;
  if (path.empty()) {
    if (samples) throw BadInput("log.sample_every", "samples need data.tokenizer");
    return {};
  }
  std::unique_ptr<const Tokenizer> tokenizer;
  try {
    tokenizer = load_tokenizer(path);
  } catch (const BadInput&) {
    if (!c.data.tokenizer.empty() || samples) throw;
    return {};  // the checkpoint has none
  }
  const TokenInfo& corpus = data.info();
  const TokenInfo& first = data.source_info() != nullptr ? *data.source_info() : corpus;
  if (samples && data.source_info() != nullptr) {
    throw BadInput("log.sample_every", "samples continue a text; an encoder–decoder has none to continue");
  }
  if (tokenizer_fingerprint(*tokenizer) != first.fingerprint) {
    throw BadInput(path, "the tokens in {} come from a different tokenizer", c.data.train);
  }
  tokenizer_files(path);  // throws now for a tokenizer that a checkpoint cannot hold
  if (samples) return Samples(c, std::move(tokenizer), corpus, model);
  return {};
}

}  // namespace vitrine
