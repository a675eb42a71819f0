// Pairs of texts for encoder–decoders: packing them line by line, and batches of them.
//
// A folder of pairs has two folders of token shards, source/ and target/, whose documents are the lines of two files. A
// target ends with the token that ends a text. In training the decoder reads the start symbol and all of the target but
// its last token, and predicts the target:
//
//   source     ein Haus </s>               the encoder's tokens
//   inputs     <s> a house                 targets   a house </s>
//
// Batches are ragged: sources and targets of different lengths need no padding.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "data/dataset.h"
#include "parallel/thread_pool.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// The ids of a target's line, which end with `end`.
std::vector<std::int32_t> target_ids(const Tokenizer& tokenizer, std::int32_t end, std::string_view line);

struct PackedPairs {
  std::int64_t pairs = 0;
  std::int64_t empty = 0;  ///< Pairs that were dropped because a line has no tokens.
  std::int64_t source_tokens = 0, target_tokens = 0;
};

/// Tokenizes the lines of two files and writes them to `folder`. The tokenizers' special tokens are added, and the
/// target's end_token_of() (data/pack.h) to a target that does not end with it. Throws BadInput if the files have
/// different numbers of lines or no pair has tokens, if the target's tokenizer has no such token, and as ShardWriter
/// does.
PackedPairs pack_pairs(const std::string& source, const std::string& target, const Tokenizer& tokenizer,
                       const Tokenizer& target_tokenizer, const std::string& folder, ThreadPool& pool,
                       const ReportProgress& report = {});

/// Whether a folder holds pairs.
bool is_pair_folder(const std::string& folder);

class PairCorpus : public TrainingData {
 public:
  /// Pairs with more than options.sequence tokens on either side are left out. Holds out the pairs in the folder
  /// `validation`, or, if that is "", the fraction options.validation at the end of `train`. The decoder reads
  /// `start_id` first. Throws as TokenShards does, and BadInput if no pair remains, or if the folders' tokenizers
  /// differ.
  PairCorpus(const std::string& train, const std::string& validation, const DatasetOptions& options,
             std::int32_t start_id);
  ~PairCorpus() override;

  Batch batch(std::int64_t step) const override;
  std::int64_t validation_batches() const override;
  Batch validation_batch(std::int64_t index) const override;
  const TokenInfo& info() const override;
  const TokenInfo* source_info() const override;
  std::int64_t training_tokens() const override;
  double samples_per_epoch() const override { return static_cast<double>(training_pairs()); }
  double tokens_per_byte() const override;

  std::int64_t training_pairs() const;
  std::int64_t left_out() const;  ///< Pairs that are too long.

 private:
  struct Part;
  Batch batch_of(const Part& part, std::span<const std::int64_t> pairs) const;

  std::unique_ptr<Part> training_, held_out_;
  DatasetOptions options_;
  std::int32_t start_id_;
};

}  // namespace vitrine
