// A model: its config, its parameters, and its forward and backward.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/params.h"
#include "model/stack.h"

namespace vitrine {

/// Which positions the layers of a cache keep.
enum class KvReach : std::uint8_t {
  windows,  ///< those that later queries see
  all,      ///< all, so that the scores of a chunk are rows of those of the whole text
};

/// Ids of tokens in whose place the vectors of a picture or a sound would be read, by another part of the checkpoint;
/// and of what they are: "image", "video" or "audio".
using PlaceholderTokens = std::map<std::int32_t, std::string>;

/// Immutable after construction, so several threads may run passes at once.
class Model {
 public:
  /// `storage` owns the memory that the views of `params` refer to. Throws as validate() does.
  Model(ModelConfig config, ModelParams params, std::vector<std::shared_ptr<const void>> storage,
        PlaceholderTokens placeholders = {});

  const ModelConfig& config() const { return config_; }
  const ModelParams& params() const { return params_; }
  /// Throws BadInput for a placeholder among the ids of a text. A forward computes with it as with other ids: the model
  /// may have written it.
  void refuse_placeholders(std::span<const std::int32_t> ids) const;

  /// A cache for one sequence of at most `capacity` tokens. Throws BadInput if it is negative or above max_seq_len,
  /// Unsupported if the model is bidirectional.
  KvCache make_cache(std::int64_t capacity, KvTypes types, KvMemory& memory = system_kv_memory(),
                     KvReach reach = KvReach::windows) const;
  /// A cache for the keys and values of a source of `length` tokens, to be set as KvCache::source.
  std::shared_ptr<KvCache> make_source_cache(std::int64_t length, KvTypes types,
                                             KvMemory& memory = system_kv_memory()) const;

  /// Runs `tokens`, one per row of the pass; p.segments must cover the rows, and p.sources those of the encoder. Passes
  /// the requested logits to p.logits.receive and advances the segments' caches. The pass ends early if no later value
  /// is needed. A segment with an infinite or NaN value fails alone (Segment::failure). Throws BadInput for ids,
  /// positions or segments that do not fit; NotFinite, naming the first site, if all segments fail, or if one fails in
  /// a pass with taps, a tape or a loss; Interrupted. If a pass throws, discard its caches.
  void forward(Pass& p, const Tokens& tokens) const;

  /// The last step of forward() on any rows `[n, d_model]` of a stream: final norm, transform, unembedding, scale and
  /// softcap. Returns their logits `[n, vocab_size]`, in the pass's arena. `numbers`: the rows of the pass that they
  /// belong to. Throws Unsupported if the model has no head, NotFinite as forward() does.
  Tensor head(Pass& p, const Tensor& rows, std::span<const std::int64_t> numbers) const;

  /// Runs `tokens` forward and backward: adds the losses to p.training.result, and the gradients of parameters to those
  /// of the tape. Throws as forward() does, and Unsupported if an op has no backward. If it throws, discard the tape.
  void forward_backward(Pass& p, const Tokens& tokens) const;

 private:
  void check(const Pass& p, const Tokens& tokens) const;
  void check_cache(const Pass& p, std::size_t segment) const;
  void check_source(const Pass& p, std::size_t segment) const;
  void check_source_rows(const Pass& p, const Tokens& tokens) const;
  void check(const LossRequest& loss, std::int64_t rows, std::size_t n_segments) const;
  Tensor encode(Pass& p, const Tokens& tokens, SharedStates& states) const;
  StackInput input_of_start(Pass& p, const Tokens& tokens) const;

  ModelConfig config_;
  ModelParams params_;
  std::vector<std::shared_ptr<const void>> storage_;
  PlaceholderTokens placeholders_;
};

}  // namespace vitrine
