// Training on texts: each is a segment of its own, without padding.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "model/config.h"
#include "train/text_examples.h"
#include "train/text_outputs.h"
#include "train/train_config.h"

namespace vitrine {

/// A line of a file as the model reads it.
struct TextExample {
  std::vector<EncodedText> pieces;
  std::vector<double> labels;  ///< Of a tagger, of each id; −100: it has no tag.
  bool is_tagged = false;
};

/// The ids and labels of a line. Throws as labels_of() does.
TextExample encode_example(const TextObjective& objective, const std::vector<std::string>& names,
                           const TextEncoder& encoder, const TextLine& line, const std::string& where);
/// Appends an example to a batch.
void append_example(const TextExample& example, Batch& batch);

/// The examples of data.texts in memory. Batches count its lines: sample number s is line s of the file, or, shuffled,
/// of a permutation for each epoch. An epoch may end within a batch.
class TextData final : public TrainingData {
 public:
  /// `tokenizer_path`: the model's. Throws BadInput, naming the line, for one that cannot be learned from,
  /// Unsupported for vectors that the folder makes otherwise than the learner can.
  TextData(const TrainConfig& config, const ModelConfig& model, const std::string& tokenizer_path);

  Batch batch(std::int64_t step) const override;
  std::int64_t validation_batches() const override;
  Batch validation_batch(std::int64_t index) const override;
  const TokenInfo& info() const override { return info_; }
  std::int64_t training_tokens() const override { return training_.n_ids; }
  double samples_per_epoch() const override { return static_cast<double>(training_.examples.size()); }
  double tokens_per_byte() const override { return 0; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

  /// For the run's first message: what it learns from.
  std::string plan(double epochs) const;
  std::int64_t longest() const { return training_.longest; }          ///< The most ids of a text.
  std::int64_t most_pieces() const { return training_.most_pieces; }  ///< The most texts of a line.
  const TextObjective& objective() const { return objective_; }
  const TextResult& result() const { return result_; }

 private:
  struct File {
    std::vector<TextExample> examples;
    std::int64_t n_ids = 0, n_cut = 0, longest = 1, most_pieces = 1;
  };
  File read(const std::string& path, const ModelConfig& model, const TextEncoder& encoder) const;
  void hold_out(double fraction, const std::string& path);

  SentenceConfig sentences_;
  TextObjective objective_;
  TextResult result_;
  File training_, validation_;
  TokenInfo info_;
  std::int64_t batch_;
  std::uint64_t seed_;
  bool is_shuffled_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace vitrine
