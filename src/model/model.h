// A model: its config, its parameters, and its forward and backward.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// The tokens of a pass, one per row: their ids, and their types if the model has any (none given: all 0).
struct Tokens {
  std::span<const std::int32_t> ids;
  std::span<const std::int32_t> types{};

  Tokens(std::span<const std::int32_t> token_ids, std::span<const std::int32_t> token_types = {})
      : ids(token_ids), types(token_types) {}
  Tokens(const std::vector<std::int32_t>& token_ids) : ids(token_ids) {}
};

/// Immutable after construction, so several threads may run passes at once.
class Model {
 public:
  /// `storage` owns the memory that the views of `params` refer to. Throws as validate() does.
  Model(ModelConfig config, ModelParams params, std::vector<std::shared_ptr<const void>> storage);

  const ModelConfig& config() const { return config_; }
  const ModelParams& params() const { return params_; }

  /// A cache for one sequence of at most `capacity` tokens. Throws BadInput if it is negative or above max_seq_len,
  /// Unsupported if the model is bidirectional.
  KvCache make_cache(std::int64_t capacity, DType dtype, KvMemory& memory = system_kv_memory()) const;

  /// Runs `tokens`, one per row of the pass; p.segments must cover the rows. Passes the requested logits to
  /// p.logits.receive and advances the segments' caches. The pass ends early if no later value is needed. A segment
  /// with an infinite or NaN value fails alone (Segment::failure). Throws BadInput for ids, positions or segments that
  /// do not fit; NotFinite, naming the first site, if all segments fail, or if one fails in a pass with taps, a tape or
  /// a loss; Interrupted. If a pass throws, discard its caches.
  void forward(Pass& p, const Tokens& tokens) const;

  /// Runs `tokens` forward and backward: adds the losses to p.training.result, and the gradients of parameters to those
  /// of the tape. Throws as forward() does, and Unsupported if an op has no backward. If it throws, discard the tape.
  void learn(Pass& p, const Tokens& tokens) const;

 private:
  void check(const Pass& p, const Tokens& tokens) const;
  void check(const LossRequest& loss, std::int64_t rows, std::size_t n_segments) const;
  std::span<const std::int32_t> tap_tokens(Pass& p, std::span<const std::int32_t> tokens,
                                           std::vector<std::int32_t>& replaced) const;
  Tensor stream(Pass& p, const Tokens& tokens) const;
  Tensor requested_rows(Pass& p, const Tensor& x) const;
  void learn_from(Pass& p, const Tensor& all_logits, std::int64_t first) const;
  Tensor embed_tokens(Pass& p, const Tokens& tokens) const;
  void head(Pass& p, const Tensor& x, std::span<const std::int32_t> ids) const;
  Tensor transform(Pass& p, const Tensor& x) const;
  Tensor unembed(Pass& p, const Tensor& x, std::int64_t first) const;

  ModelConfig config_;
  ModelParams params_;
  std::vector<std::shared_ptr<const void>> storage_;
};

}  // namespace vitrine
