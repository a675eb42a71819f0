// BLEU and chrF of translations, which score and eval report.
#pragma once

#include <span>
#include <string>

#include "cli/command.h"
#include "cli/output.h"
#include "metrics/translation_scores.h"

namespace vitrine::cli {

struct ScoreSettings {
  std::string tokenize = "13a";
  bool lowercase = false;
};

/// Adds --tokenize and --lowercase.
void add_score_settings(Command& command, ScoreSettings& settings);

struct Scores {
  Bleu bleu;
  Chrf chrf;
  std::string signature;
};
Scores scores_of(std::span<const LinePair> lines, const ScoreSettings& settings);
/// Adds bleu, precisions, brevity_penalty, chrf, chrf++ and signature.
void add_scores(const Scores& scores, Json& object);
std::string to_string(const Scores& scores);  ///< A line for each.

}  // namespace vitrine::cli
