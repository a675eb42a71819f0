// The values of the figures, computed from a recording and the model. docs/page.md defines their names and shapes.
#pragma once

#include <algorithm>
#include <cmath>

#include "inspect/head_scores.h"
#include "look/look.h"
#include "look/recording.h"

namespace vitrine {

constexpr int kLookTop = 10;
/// The features of a token, and the logit weights of each.
constexpr std::size_t kLookFeatures = 5, kFeatureLogits = 5;

/// The cosine of two vectors by their product and their squares; 0 if one of them is zero.
inline double cosine_of(double product, double squares, double other_squares) {
  const double lengths = std::sqrt(squares * other_squares);
  return lengths > 0 ? std::clamp(product / lengths, -1.0, 1.0) : 0;
}

/// Of the dashboard of a feature: its contexts, and their tokens up to the strongest and from it on.
constexpr std::size_t kDashboardContexts = 8;
constexpr std::int64_t kDashboardBefore = 16, kDashboardTokens = 24;

/// Maps of 8 bits have at least so many rows, if the text has.
constexpr std::int64_t kCoarsestMap = 64;

/// A score of a head, NaN where it is a mean over no query.
struct ScoreOfHead {
  const char* name;
  double (*value)(const HeadScores&);
};

constexpr ScoreOfHead kScoresOfHeads[] = {
    {"previous", [](const HeadScores& s) { return s.previous.value_or(kNoValue); }},
    {"first", [](const HeadScores& s) { return s.first.value_or(kNoValue); }},
    {"current", [](const HeadScores& s) { return s.current; }},
    {"duplicate", [](const HeadScores& s) { return s.duplicate.value_or(kNoValue); }},
    {"induction", [](const HeadScores& s) { return s.induction.value_or(kNoValue); }},
    {"distance", [](const HeadScores& s) { return s.distance; }},
    {"entropy", [](const HeadScores& s) { return s.entropy; }}};

/// Of all heads of a run.
std::vector<HeadScores> scores_of(const Recording& r, ThreadPool& pool);

/// tokens.*, top.*
void add_text_values(const Recording& r, LookData& data);
/// update_scale, stream_std.*, rms.*, ledger.* of a run with the changes `writes`.
void add_stream_values(const GenerateContext& context, const Recording& r, std::span<const SiteWrite> writes,
                       LookData& data);
/// embedding.* of the distinct tokens among the words, or of the text; analogy.*
void add_embedding_values(const GenerateContext& context, const Recording& r, const LookWords& words, LookData& data);
/// direction.*
void add_direction_values(const GenerateContext& context, const Recording& r, LookData& data);
/// rope.*; nothing for a model without rotary positions.
void add_rope_values(const Recording& r, LookData& data);
/// The layer whose MLP is drawn: the one nearest to the middle that has a dense MLP.
std::optional<std::int64_t> drawn_mlp(const ModelConfig& config);
/// The site of what the MLP of a layer reads.
std::string mlp_input(const Recording& r, std::int64_t layer);
/// Whether the values at a site are maps `[H, T, S]`.
bool is_map(const std::string& site);
/// Whether a figure shows the row of a site at the followed position.
bool is_drawn_row(const ModelConfig& config, const std::string& site);
/// mlp.*; nothing without a dense MLP, and at the first position.
void add_mlp_values(const GenerateContext& context, const Recording& r, LookData& data);
/// lens.*
void add_lens_values(const GenerateContext& context, const Recording& r, LookData& data);
/// heads.*; NaN where a layer has fewer heads, and for means over no query.
void add_head_values(const GenerateContext& context, const Recording& r, LookData& data);
/// states.* of layers with a recurrence, of a run with the changes `writes`; nothing for a text whose states are too
/// large.
void add_state_values(const GenerateContext& context, const Recording& r, std::span<const SiteWrite> writes,
                      LookData& data);
/// attribution.*, for the most likely token after the followed position. Throws Unsupported as attribute() does.
void add_attribution_values(const GenerateContext& context, const Recording& r, LookData& data);
/// attribution.head, from terms by head; NaN where a layer has fewer heads.
void add_head_attribution(const Recording& r, std::span<const AttributionTerm> terms, LookData& data);
/// label.*, attribution.* of a label, heads.to_second and heads.to_first.
void add_label_values(const GenerateContext& context, const Recording& r, const LookLabel& label, LookData& data);
/// patch.*, for the most likely token after the text, with values of the text in the run of `corrupted`.
void add_patch_values(const GenerateContext& context, const Recording& r, std::span<const std::int32_t> corrupted,
                      LookData& data);
/// NAME.dashboards.* of some features, ascending.
void add_dashboards(const FeatureIndex& index, const std::vector<std::int32_t>& features, const std::string& name,
                    LookData& data);
/// features.*; returns what the page says about each dictionary.
Json add_feature_values(const LookSubject& subject, const Recording& r, LookData& data);
/// funnel.*
void add_funnel_values(const Recording& r, const SamplingConfig& sampling, std::uint64_t seed, LookData& data);
/// account.*, time.*, parameters.*, and with the limits of this machine ceilings.* and roofline.*
void add_cost_values(const LookSubject& subject, const Recording& r, LookData& data);
/// parameters.*
void add_parameter_values(const ModelConfig& config, LookData& data);
/// difference.*, between a run and a changed one.
void add_difference_values(const Recording& before, const Recording& after, LookData& data);
/// Throws BadInput for a checkpoint whose vocabulary, layers or heads are not those of the model.
void check_run(const LookRun& run, const ModelConfig& config);
/// run.*: the text of `r` at every checkpoint of a training run; the maps if `with_maps`.
void add_run_values(const GenerateContext& context, const Recording& r, const LookRun& run, bool with_maps,
                    LookData& data);

}  // namespace vitrine
