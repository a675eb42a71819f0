// The comparison of a model with the one that it was made of, for eval and quantize.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "generate/evaluate.h"
#include "inspect/model_comparison.h"

namespace vitrine::cli {

/// The tokens of a text without BOS, which begins every window instead.
std::vector<std::int32_t> text_ids(const Session& session, std::string_view text, SpecialTokens policy);

/// Evaluates `own` over the text and compares its predictions with those of `other`.
struct Compared {
  Evaluation evaluation;
  ModelDifference difference;
};
Compared evaluate_against(const GenerateContext& own, const GenerateContext& other, bool layers,
                          std::span<const std::int32_t> text, const EvalConfig& config);

/// Adds "against" and, if layers were compared, "layers".
void add_difference(const ModelDifference& difference, Json& object);
/// The same as lines of text.
std::string to_string(const ModelDifference& difference);

}  // namespace vitrine::cli
