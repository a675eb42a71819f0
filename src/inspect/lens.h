// The logit lens: what each state of the residual stream would predict if it were the last one.
//
//   logits(state)  = the model's own last step (Model::head): final norm, with the state's own statistics, unembedding,
//                    scale, softcap
//   entropy        = −Σ p log p
//   KL             = Σ p_final (log p_final − log p)       from the final state to this one
//
// In nats; sums in double precision, in the order of ids. The last state is the model's prediction, bit for bit. Before
// the last step, a trained lens maps the other states (inspect/trained_lens.h).
// Source: nostalgebraist 2020, "interpreting GPT: the logit lens".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/context.h"
#include "inspect/trained_lens.h"

namespace vitrine {

struct LensToken {
  std::int32_t id = 0;
  float logit = 0;
  double logprob = 0;
  std::int64_t rank = 0;  ///< The number of tokens before it, in the order of top_logprobs().
};

/// One state at one position.
struct LensCell {
  std::vector<LensToken> top;  ///< The most likely tokens.
  double entropy = 0;
  double kl = 0;
  std::vector<LensToken> tokens;  ///< Those of LensOptions: `tokens`, then the one of `by_position`.
};

struct LensOptions {
  int top = 5;
  std::vector<std::int32_t> tokens{};
  bool sublayers = false;                   ///< Also the states between the sublayers of a block.
  std::vector<std::int32_t> by_position{};  ///< One more token for each position; may be empty.
  const TrainedLens* trained = nullptr;     ///< The result has the states that it maps, and the last one.
};

struct Lens {
  std::vector<SiteId> states;
  std::vector<std::vector<LensCell>> cells;  ///< `[states][T]`
};

/// Runs the text once, without its head, and then the head on all states. Keeps all states in memory:
/// states · T · d_model floats. Throws BadInput as text_pass() does and for tokens outside the vocabulary, Unsupported
/// for a model without a head or without a residual stream, and for a trained lens with sublayers.
Lens lens(const GenerateContext& context, const Tokens& tokens, const LensOptions& options);

/// The cells `[states][T]` of states that a run of the text has had: `[T, d_model]` each, as stream_states() lists
/// them. Throws as lens() does.
std::vector<std::vector<LensCell>> lens_of(const GenerateContext& context, const Tokens& tokens,
                                           std::span<const Tensor> states, const LensOptions& options);

}  // namespace vitrine
