// A dictionary whose parameters are in memory of its own and learn: the description of pass/dictionary.h over them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "features/write_saelens.h"
#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#include "pass/dictionary.h"
#include "tensor/zero_memory.h"
#include "train/dictionary/dictionary_config.h"
#include "train/trainable.h"

namespace vitrine {

/// The factors of `expected_average_only_in`: rows are multiplied by them before the dictionary sees them, and they are
/// divided out of the weights that are written.
struct ActivationFactors {
  double input = 1, output = 1;
};

class LearnedDictionary {
 public:
  /// Parameters of zeros. Throws BadInput for sizes that contradict the options, OutOfCapacity.
  LearnedDictionary(const LearnedOptions& options, std::int64_t d_in, std::int64_t d_out, std::int64_t d_sae);
  LearnedDictionary(const LearnedDictionary&) = delete;
  LearnedDictionary& operator=(const LearnedDictionary&) = delete;

  /// Draws W_dec from U(−√(6 / d), √(6 / d)), d its number of columns, with rows of the norm decoder_init_norm; W_enc
  /// is its transpose, of a transcoder drawn in the same way. Biases are 0. Source: decoderesearch/SAELens,
  /// sae_lens/saes/sae.py (initialize_weights).
  void draw(std::uint64_t seed);
  /// Copies the parameters of another dictionary. Throws BadInput if its sizes or its selection do not fit.
  void copy(const Dictionary& from, const std::string& where, ThreadPool& pool, const Kernels& kernels);

  const LearnedOptions& options() const { return options_; }
  const Dictionary& dictionary() const { return dictionary_; }
  std::span<const TrainParam> params() const { return params_; }
  /// The thresholds as a parameter; null if they do not learn.
  const Param* thresholds() const { return has_thresholds() ? &thresholds_ : nullptr; }
  /// Of batchtopk: the mean of the least active values, which becomes the threshold.
  double topk_threshold = 0;

  /// Sets what follows from the parameters: thresholds, which are at least 0, and norms. Call it before a pass.
  void refresh(ThreadPool& pool, const Kernels& kernels);
  /// ‖W_dec[i]‖; refresh() computes them.
  std::span<const float> norms() const { return norms_; }

  /// Writes the dictionary for inference, with norms and factors in its weights, into a folder of SAELens.
  void write(const DictionaryOrigin& origin, const ActivationFactors& factors, const std::string& folder,
             ThreadPool& pool, const Kernels& kernels);

 private:
  bool has_thresholds() const { return options_.shape.architecture == LearnedArchitecture::jumprelu; }
  void add(Param& param, const char* name, const Shape& shape, std::int64_t& at);

  LearnedOptions options_;
  ZeroMemory memory_;
  Dictionary dictionary_;
  Param thresholds_{};
  std::vector<TrainParam> params_;
  std::vector<float> norms_;
};

}  // namespace vitrine
