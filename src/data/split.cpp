#include "data/split.h"

#include "base/error.h"

namespace vitrine {
namespace {

DatasetOptions with_validation(DatasetOptions options, double part) {
  options.validation = part;
  return options;
}

}  // namespace

SplitCorpus::SplitCorpus(const std::string& train, const std::string& validation, const DatasetOptions& options,
                         std::int64_t vocab_size)
    : shards_(TokenShards::open(train)),
      training_(shards_, validation.empty() ? options : with_validation(options, 0), vocab_size) {
  if (validation.empty()) return;
  validation_shards_.emplace(TokenShards::open(validation));
  if (validation_shards_->info().fingerprint != shards_.info().fingerprint) {
    throw BadInput(validation, "its tokens come from a different tokenizer than those in {}", train);
  }
  validation_.emplace(*validation_shards_, with_validation(options, 1), vocab_size);
}

const Dataset* SplitCorpus::held_out() const {
  if (validation_) return &*validation_;
  return training_.validation_tokens() > 0 ? &training_ : nullptr;
}

std::int64_t SplitCorpus::validation_batches() const {
  return held_out() != nullptr ? held_out()->validation_batches() : 0;
}

double SplitCorpus::tokens_per_byte() const {
  const TokenShards& from = held_out_shards();
  return static_cast<double>(from.tokens()) / static_cast<double>(from.text_bytes());
}

}  // namespace vitrine
