#include "train/open_corpus.h"

#include "base/error.h"
#include "data/pack.h"
#include "data/pairs.h"
#include "data/split.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {
namespace {

std::optional<std::int32_t> id_at(const Json& config, const char* key) {
  const auto it = config.find(key);
  return it != config.end() && it->is_number_integer() ? std::optional(it->get<std::int32_t>()) : std::nullopt;
}

}  // namespace

std::unique_ptr<TrainingData> open_corpus(const TrainConfig& c, const ModelConfig& model, const Json& config) {
  const DatasetOptions options{c.train.seq_len, c.train.batch, c.train.seed, c.data.validation_fraction,
                               c.data.mask_documents};
  const bool is_pairs = is_pair_folder(c.data.train);
  if (is_pairs && !model.encoder) throw BadInput("data.train", "it holds pairs, but the model has no encoder");
  if (!is_pairs && model.encoder) {
    throw BadInput("data.train", "expected pairs for an encoder–decoder (vitrine data pack SRC --target TGT)");
  }
  if (!is_pairs) return std::make_unique<SplitCorpus>(c.data.train, c.data.validation, options, model.vocab_size);
  if (c.data.mask_documents) throw BadInput("data.mask_documents", "it has no effect on pairs");
  const auto decoder_start = id_at(config, "decoder_start_token_id"), bos = id_at(config, "bos_token_id");
  if (!decoder_start && !bos) {
    throw BadInput("model", "expected decoder_start_token_id in the model's config: the decoder reads it first");
  }
  auto corpus =
      std::make_unique<PairCorpus>(c.data.train, c.data.validation, options, decoder_start ? *decoder_start : *bos);
  if (corpus->info().vocab_size > model.vocab_size || corpus->source_info()->vocab_size > model.encoder->vocab_size) {
    throw BadInput("data", "the corpus has ids up to {} and {}, but the model has only {} and {} tokens",
                   corpus->source_info()->vocab_size - 1, corpus->info().vocab_size - 1, model.encoder->vocab_size,
                   model.vocab_size);
  }
  return corpus;
}

MaskOptions mask_options(const TrainConfig& run, const ModelConfig& model, const Json& config,
                         const std::string& tokenizer) {
  std::optional<std::int32_t> mask = id_at(config, "mask_token_id");
  if (!mask && !tokenizer.empty()) {
    const auto own = load_tokenizer(tokenizer);
    mask = special_token(*own, "[MASK]");
    if (!mask) mask = special_token(*own, "<mask>");
  }
  if (!mask || *mask < 0 || *mask >= model.vocab_size) {
    throw BadInput("train.objective",
                   "expected mask_token_id in the model's config, or a tokenizer with [MASK] or <mask>");
  }
  return {run.train.mask_fraction, *mask, model.vocab_size, run.train.seed};
}

}  // namespace vitrine
