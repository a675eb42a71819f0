// Many runs of one text, each with its own changes to values, as segments of shared passes.
//
// Each run has the bits that it has alone, because the bits of a row depend on its segment only.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "inspect/text_pass.h"

namespace vitrine {

/// A change of one value. `change` modifies the value of the run in place: its rows `[T, …]`, or `[H, T, S]`; of sites
/// of the head only the row of the run's logits.
struct SiteEdit {
  SiteId site;  ///< Without a segment.
  std::function<void(const Tensor& own)> change;
};

using Edits = std::vector<SiteEdit>;

/// Receives the logits `[vocab_size]` of run `run` at the position.
using ReceiveRun = std::function<void(std::size_t run, std::span<const float> logits)>;

/// Runs `tokens` once for each of `runs`. Throws as text_pass() does, NotFinite if an edit makes a value infinite or
/// NaN, Unsupported if a model without a head has no logits.
void run_edited(const GenerateContext& context, const Tokens& tokens, std::int64_t position,
                std::span<const Edits> runs, const ReceiveRun& receive);

}  // namespace vitrine
