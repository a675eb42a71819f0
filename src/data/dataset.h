// Training samples: windows of a packed stream of tokens, in an order that is a pure function of seed and step.
//
//   stream     B a b c B d e f g h B i …            T = 4
//   window 0  [B a b c]B   inputs B a b c, targets a b c B
//   window 1          [B d e f]g   and so on: no token is an input twice in an epoch
//
// An epoch has k windows of T tokens; the rest of the training part, shorter than 2 T, is left out. Each epoch shifts
// all windows by a random number of tokens, so that the corpus is not always cut at the same places.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/shards.h"

namespace vitrine {

struct DatasetOptions {
  std::int64_t sequence = 0;    ///< T: inputs of a sample, at least 1.
  std::int64_t batch = 1;       ///< B: samples of a batch, at least 1.
  std::uint64_t seed = 0;       ///< Determines the order.
  double validation = 0;        ///< The fraction at the end that is never trained on; 1: all.
  bool mask_documents = false;  ///< Attention does not cross documents.
};

/// B samples. Row b·T + t is token t of sample b.
struct Batch {
  /// Consecutive rows that attend to each other: a sample, or with mask_documents one document's part of it.
  struct Piece {
    std::int64_t first_row = 0;
    std::int64_t length = 0;
  };
  std::vector<std::int32_t> inputs;   ///< `[B, T]`
  std::vector<std::int32_t> targets;  ///< `[B, T]`, the token that follows each
  /// `[B, T]`, 1 if the target counts for the loss. 0 if it is the first token of a document, which nothing before it
  /// predicts (mask_documents without a document token), and if an earlier validation window has counted it.
  std::vector<std::uint8_t> counts;
  std::vector<Piece> pieces;            ///< Cover all rows, ascending.
  std::vector<std::int32_t> sources{};  ///< What an encoder reads, and the part of it that belongs to each piece.
  std::vector<Piece> source_pieces{};
  bool is_ragged = false;  ///< Each piece is a whole sample, of its own length.
  /// Of a batch of pairs: the number of the pair of pieces 2 i and 2 i + 1, the chosen and the rejected answer.
  std::vector<std::int64_t> pairs{};
  /// Consecutive pieces that are one example of texts, and what is known of them: labels, tags of the tokens, scores.
  struct Example {
    std::int64_t first_piece = 0, n_pieces = 1;
    std::vector<double> labels{};
  };
  std::vector<Example> examples{};    ///< Of a batch of texts; they cover its pieces.
  std::vector<std::int32_t> types{};  ///< Of their tokens, or empty: all 0.

  std::int64_t n_counted() const;
  /// The number of pieces in the first of `parts` equal parts.
  std::int64_t n_pieces(std::int64_t parts) const;
};

/// A bijection of [0, n) that depends on `key` and `number`: a Feistel network over the bits of n, repeated until the
/// result is below n. It needs no memory. Source: Black, Rogaway, "Ciphers with arbitrary finite domains" (2002).
std::uint64_t permuted(std::uint64_t place, std::uint64_t n, std::uint64_t key, std::uint64_t number);

/// What a run trains on, and what it holds out for validation. Immutable, and safe for any number of threads.
class TrainingData {
 public:
  virtual ~TrainingData() = default;

  /// Batch `step`, counted from 0.
  virtual Batch batch(std::int64_t step) const = 0;
  /// The validation part in order: every target counts once. 0: nothing is held out.
  virtual std::int64_t validation_batches() const = 0;
  virtual Batch validation_batch(std::int64_t index) const = 0;

  /// The tokens that the model predicts, and those of the text before, if they differ.
  virtual const TokenInfo& info() const = 0;
  virtual const TokenInfo* source_info() const { return nullptr; }
  virtual std::int64_t training_tokens() const = 0;  ///< Of an epoch.
  virtual double samples_per_epoch() const = 0;      ///< Pairs, or parts of the text of the length of a sample.
  virtual double tokens_per_byte() const = 0;        ///< Of the held-out text; 0: unknown.
  /// A number that identifies the samples, if they are not those of shards; else 0.
  virtual std::uint64_t fingerprint() const { return 0; }

 protected:
  TrainingData() = default;
};

/// Immutable, and safe for any number of threads.
class Dataset {
 public:
  /// `shards` must outlive this object. Throws BadInput for options out of range, a `vocab_size` (the model's) below
  /// the corpus's, a training part or a validated corpus without a whole sample, and if no target counts.
  Dataset(const TokenShards& shards, const DatasetOptions& options, std::int64_t vocab_size);

  std::int64_t train_tokens() const { return train_tokens_; }  ///< [0, train_tokens()) of the stream; then validation.
  std::int64_t validation_tokens() const { return shards_->tokens() - train_tokens_; }
  std::int64_t samples_per_epoch() const { return windows_; }
  std::int64_t seq_len() const { return options_.sequence; }

  /// Batch `step`: samples step·B to step·B + B − 1.
  Batch batch(std::int64_t step) const;
  /// `count` samples from number `first` on. Sample s is in epoch s / samples_per_epoch(), where none occurs twice.
  Batch samples(std::int64_t first, std::int64_t count) const;
  /// The place in the stream where sample number `sample` begins.
  std::int64_t place_of(std::int64_t sample) const;

  /// The whole validation part, in order: every target counts once. The last batch may have fewer samples.
  std::int64_t validation_batches() const;
  Batch validation_batch(std::int64_t index) const;

 private:
  std::int64_t validation_begin(double part) const;
  std::int64_t validation_windows() const;
  void append(std::int64_t begin, std::int64_t not_counted, Batch& batch) const;

  const TokenShards* shards_;
  DatasetOptions options_;
  std::int64_t train_tokens_ = 0;
  std::int64_t windows_ = 0;  // of an epoch
  std::int64_t shifts_ = 1;   // an epoch begins at one of this many places
};

// A corpus in two parts: tokens to train on, and tokens held out for validation.

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
