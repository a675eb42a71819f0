// Small training runs: a corpus of a few thousand ids, a config, and the files that a run writes.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "train/train_config.h"
#include "train/trainer.h"

namespace vitrine::test {

/// Writes shards of ids below `vocab_size` with a pattern to learn. `fingerprint` identifies their tokenizer.
void write_corpus(const std::string& folder, std::int64_t vocab_size, std::int64_t n_tokens,
                  std::uint64_t fingerprint = 1);
/// The same with the given ids.
void write_corpus(const std::string& folder, std::int64_t vocab_size, const std::vector<std::int32_t>& ids);

/// A TOML config: a vocabulary of 23 tokens, 2 layers of width 16. `train` has further lines of [train], `more` has
/// further sections.
struct TinyRun {
  std::string data, out;
  std::string model = R"(
[model]
init = "gpt2"
[model.config]
model_type = "vitrine"
d_model = 16
n_layers = 2
n_heads = 2
d_ff = 32
vocab_size = 23
max_seq_len = 16
positions = "learned"
norm = "layer"
activation = "gelu"
gated = false
tied = true
)";
  int steps = 8;
  int batch = 4;
  int micro_batches = 1;
  int seq_len = 12;
  double lr = 1e-2;
  std::string schedule = "warmup = 2\n";
  std::string train;
  std::string more;
  std::string data_more = "validation_fraction = 0.2\n";
  std::string log = "validate_every = 4\nsave_every = 3\nkeep_last = 2\n";

  std::string toml() const;
};

/// Trains and prints nothing. The output folder is `run.out`.
TrainResult train_tiny(const TinyRun& run, bool resume = false, int threads = 1,
                       std::vector<std::string>* lines = nullptr);

/// metrics.jsonl without the values that depend on the clock.
std::vector<Json> metrics_of(const std::string& folder);
std::vector<double> losses_of(const std::string& folder);
/// All bytes of a file.
std::string bytes_of(const std::string& path);

}  // namespace vitrine::test
