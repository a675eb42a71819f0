// Direct logit attribution: how much each component writes towards a token.
//
//   x            = Σ terms                              the stream at one position, before the final norm
//   normed       = (x − mean x) / scale · w + b         linear in x once the divisor is held fixed; RMSNorm: mean 0
//   unembedded   = normed · u + bias                    u is the head's row of the token, or the difference of two rows
//
// So every term has a share of `unembedded`, and the shares add up to it. The same holds for norms after a sublayer and
// for norms of the stream (their divisors are those of the run), for factors of the sublayers' outputs, and for heads:
// each writes z · Wo. The values are those of one forward, read by taps; the shares are computed in double precision.
// Where the unembedding is a quantized weight, it reads `normed` rounded to 8 bits, and the rounding is a term.
//
// Source: Elhage et al. 2021, "A mathematical framework for Transformer circuits".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "generate/context.h"

namespace vitrine {

struct AttributionTerm {
  std::string name;  ///< `embed`, `blocks.3.attn`, `blocks.3.attn.head.1`, `blocks.3.attn.bias`, `blocks.3.control`,
                     ///< `final_norm.bias`, …
  double value = 0;
  /// The logit (minus that of `against`) with the term zeroed at every position, if requested; absent for a term that
  /// no site holds alone.
  std::optional<double> ablated{};
};

struct AttributionOptions {
  std::int32_t token = 0;
  std::optional<std::int32_t> against{};  ///< Subtracts the logit of this token.
  std::int64_t position = -1;             ///< From the end if negative.
  bool by_head = false;  ///< The heads and the bias of a sublayer that has heads instead of its output.
  bool ablate = false;
};

struct Attribution {
  std::int64_t position = 0;
  std::vector<AttributionTerm> terms;
  double sum = 0;         ///< Of the terms.
  double unembedded = 0;  ///< unembed.hook_out of the token, minus that of `against`.
  double logit = 0;       ///< hook_logits, after scale and softcap, in the same way.
};

/// Throws BadInput as text_pass() does, for tokens outside the vocabulary and for a position outside the text;
/// Unsupported for a head that is not linear, a head with an adapter, and layers without a stream.
Attribution attribute(const GenerateContext& context, const Tokens& tokens, const AttributionOptions& options);

/// The row of the value at a site at the position, whose first dimension is 1; no data if the run has no such site.
using ValueAtPosition = std::function<Tensor(const SiteId&)>;

/// The same from the values of a run that there has been. Ablations run the text again, without that run's changes.
Attribution attribute(const GenerateContext& context, const Tokens& tokens, const AttributionOptions& options,
                      const ValueAtPosition& value);

/// The position that `position` names in a text of `n` tokens. Throws BadInput if it is out of range.
std::int64_t resolve_position(std::int64_t position, std::int64_t n);

}  // namespace vitrine
