// The values of the figures, computed from a recording and the model. docs/page.md defines their names and shapes.
#pragma once

#include "look/data.h"
#include "look/recording.h"

namespace vitrine {

constexpr int kLookTop = 10;

/// tokens.*, top.*
void add_text_values(const Recording& r, LookData& data);
/// update_scale, stream_std.*, rms.*, ledger.*
void add_stream_values(const GenerateContext& context, const Recording& r, LookData& data);
/// embedding.* of the distinct tokens among `words`, direction.*
void add_embedding_values(const GenerateContext& context, const Recording& r, std::span<const std::int32_t> words,
                          LookData& data);
/// rope.*; nothing for a model without rotary positions.
void add_rope_values(const Recording& r, LookData& data);
/// mlp.*; nothing without a dense MLP, and for a text of one token.
void add_mlp_values(const GenerateContext& context, const Recording& r, LookData& data);
/// lens.*; without lens.rank for texts with many different predictions.
void add_lens_values(const GenerateContext& context, const Recording& r, LookData& data);
/// heads.*; NaN where a layer has fewer heads, and for means over no query.
void add_head_values(const GenerateContext& context, const Recording& r, LookData& data);
/// attribution.*, for the most likely token after the followed position. Throws Unsupported as attribute() does.
void add_attribution_values(const GenerateContext& context, const Recording& r, LookData& data);
/// patch.*, for the most likely token after the text, with values of the text in the run of `corrupted`.
void add_patch_values(const GenerateContext& context, const Recording& r, std::span<const std::int32_t> corrupted,
                      LookData& data);
/// funnel.*
void add_funnel_values(const Recording& r, const SamplingConfig& sampling, std::uint64_t seed, LookData& data);
/// account.*, parameters.*
void add_cost_values(const GenerateContext& context, const Recording& r, double bytes_per_weight, LookData& data);

}  // namespace vitrine
