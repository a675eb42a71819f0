// A model: its config, its parameters, and the one definition of what it computes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// Constant after loading, so several threads may run passes of their own over it.
class Model {
 public:
  /// `storage` keeps alive what the params' views point to. Throws as validate() does.
  Model(ModelConfig config, ModelParams params, std::vector<std::shared_ptr<const void>> storage);

  const ModelConfig& config() const { return config_; }
  const ModelParams& params() const { return params_; }

  /// A cache for one sequence of at most `capacity` tokens. Throws BadInput beyond max_seq_len.
  KvCache make_cache(std::int64_t capacity, DType dtype) const;

  /// Runs `tokens`, one a row of the pass; p.segments must cover the rows. Hands the requested logits to
  /// p.logits.receive and moves the segments' caches forward. The pass ends after the last value that is wanted. A
  /// segment with an infinite or NaN value fails alone (Segment::failure). Throws BadInput for ids, positions or
  /// segments that do not fit, NotFinite (naming the first place) where all segments fail, or one in a pass with taps
  /// or a loss, Interrupted. A cache whose pass has thrown must be discarded.
  void forward(Pass& p, std::span<const std::int32_t> tokens) const;

  /// Runs `tokens` forward and backward: adds their losses to p.training.result, and gradients to those of the
  /// tape. Throws as
  /// forward() does, Unsupported where something has no backward; the tape is to be discarded then.
  void learn(Pass& p, std::span<const std::int32_t> tokens) const;

 private:
  void check(const Pass& p, std::span<const std::int32_t> tokens) const;
  void check(const LossRequest& loss, std::int64_t rows, std::size_t n_segments) const;
  std::span<const std::int32_t> tap_tokens(Pass& p, std::span<const std::int32_t> tokens,
                                           std::vector<std::int32_t>& replaced) const;
  Tensor stream(Pass& p, std::span<const std::int32_t> ids) const;
  Tensor requested_rows(Pass& p, const Tensor& x) const;
  void learn_from(Pass& p, const Tensor& all_logits, std::int64_t first) const;
  Tensor embed_tokens(Pass& p, std::span<const std::int32_t> ids) const;
  void head(Pass& p, const Tensor& x, std::span<const std::int32_t> ids) const;
  Tensor unembed(Pass& p, const Tensor& x, std::int64_t first) const;

  ModelConfig config_;
  ModelParams params_;
  std::vector<std::shared_ptr<const void>> storage_;
};

}  // namespace vitrine
