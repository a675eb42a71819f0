// Rows of a model's forward over the tokens of a corpus, through a shuffled buffer, never through a file.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/caller_poll.h"
#include "data/dataset.h"
#include "model/model.h"
#include "tensor/arena.h"
#include "train/dictionary/activation_source.h"
#include "train/dictionary/dictionary_config.h"
#include "train/dictionary/mixing_order.h"

namespace vitrine {

struct ActivationStreamOptions {
  std::vector<SiteId> sites{};      ///< Distinct.
  ActivationOptions activations{};  ///< `context` tokens of each sample, `sequences` samples of a pass.
  std::int64_t batch = 1;           ///< Rows of a step.
  std::uint64_t seed = 0;
};

/// A row of the buffer is computed once. The stream that begins at a later step, that of a resumed run, computes those
/// rows again that wait in the buffer then: the bits of a row do not depend on the pass.
class ActivationStream final : public ActivationSource {
 public:
  /// `widths` are those of the sites. Batch n of `corpus` has the samples of pass n. The stream borrows its arguments.
  ActivationStream(const Model& model, const TrainingData& corpus, ActivationStreamOptions options,
                   std::vector<std::int64_t> widths, ThreadPool& pool, const Kernels& kernels,
                   const std::atomic<bool>* interrupt, CallerPoll* poll);

  const std::vector<std::int64_t>& widths() const override { return widths_; }
  void read(std::int64_t step, const Tensor& rows) override;
  std::uint64_t fingerprint() const override { return corpus_.info().fingerprint; }
  std::string plan() const override;

 private:
  void begin_at(std::int64_t step);
  void compute(std::int64_t pass, const std::vector<bool>& is_wanted);
  float* place_of(std::int64_t row);

  const Model& model_;
  const TrainingData& corpus_;
  ActivationStreamOptions options_;
  std::vector<std::int64_t> widths_;
  ThreadPool& pool_;
  const Kernels& kernels_;
  const std::atomic<bool>* interrupt_;
  CallerPoll* poll_;
  Arena arena_;
  MixingOrder order_;
  std::int64_t next_step_ = 0, computed_ = 0;  // passes computed
  std::vector<std::unique_ptr<float[]>> blocks_;
  std::vector<float*> free_;
  std::unordered_map<std::int64_t, float*> places_;  // of the rows that wait
};

}  // namespace vitrine
