// One forward with every value in it, from which the figures are computed.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "generate/context.h"
#include "generate/sampler.h"
#include "inspect/recorder.h"
#include "spell/op_log.h"

namespace vitrine {

/// In place of a value that does not exist.
constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

/// Characters of an arithmetic that the page shows.
constexpr std::size_t kMaxText = 400;

struct Recording {
  ForwardFacts facts;
  std::int64_t position = 0;                   ///< The followed one.
  std::vector<std::vector<TokenLogprob>> top;  ///< After every prefix, as `predict` ranks them.
  std::vector<double> logprob;                 ///< Of each token given the preceding ones; NaN for the first.
  std::vector<double> rank;                    ///< The number of tokens that were more likely; NaN for the first.

  std::int64_t n_tokens() const { return facts.n_tokens(); }
  bool has(const std::string& site) const { return facts.operand_of.contains(site); }
  const Seen& value(const std::string& site) const { return facts.operands[facts.operand_of.at(site)].value; }
  /// The shape of the value at a site, where heads are a dimension.
  const Shape& shape(const std::string& site) const { return facts.operands[facts.operand_of.at(site)].site_shape; }
  /// Row `t` of a value whose rows are the tokens.
  std::span<const float> row(const std::string& site, std::int64_t t) const;
  /// The logits of the token after the followed position.
  std::span<const float> logits() const { return row("hook_logits", position); }
};

/// `n_top` predictions after every prefix, unless the model has labels, of a run with these changes of values. Throws
/// as text_pass() and Recorder do.
Recording record(const GenerateContext& context, const Tokens& tokens, std::int64_t position, int n_top,
                 std::span<const SiteWrite> writes = {});

/// `blocks.3.` + name
std::string in_block(std::int64_t layer, std::string_view name);

}  // namespace vitrine
