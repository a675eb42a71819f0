// The rules that generation_config.json may set; the scores are those of transformers' logits processors.
#include "generate/output_rules.h"

#include <gmock/gmock.h>

#include <cmath>

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using Ids = std::vector<std::int32_t>;

const Ids kPrompt = {0, 1, 2}, kSource = {1, 3, 3}, kStops = {1, 2};

/// Scores before and after the repeat penalty, which is off.
std::vector<float> after(const OutputRules& rules, std::int64_t n_new = 0) {
  std::vector<float> scores = {1.0F, -2.0F, 0.5F, 3.0F};
  const TextSoFar text{kPrompt, n_new, 10, kStops, kSource};
  EXPECT_TRUE(applies(rules, text));
  apply_before_penalty(rules, text, scores);
  apply(rules, text, scores);
  return scores;
}

TEST(OutputRules, BiasesOfSequencesApplyWhereTheTextEndsWithTheirBeginning) {
  OutputRules rules;
  rules.sequence_bias = {{{3}, -1.5F}, {{1, 2, 0}, 2.25F}, {{0, 1}, 9.0F}};
  EXPECT_THAT(after(rules), ElementsAre(3.25F, -2.0F, 0.5F, 1.5F));
}

TEST(OutputRules, WhatTheSourceHasBecomesMoreLikely) {
  OutputRules rules;
  rules.source_penalty = 1.5;
  const std::vector<float> scores = after(rules);
  EXPECT_FLOAT_EQ(scores[1], -2.0F / 1.5F);
  EXPECT_FLOAT_EQ(scores[3], 4.5F) << "once, although the source has it twice";
  EXPECT_THAT(scores[0] + scores[2], 1.5F);
}

TEST(OutputRules, StopsGrow) {
  OutputRules rules;
  rules.stop_growth = {1, 1.5};
  EXPECT_THAT(after(rules, 3), ElementsAre(1.0F, 0.5F, 1.125F, 3.0F));
  EXPECT_THAT(after(rules, 1), ElementsAre(1.0F, -2.0F, 0.5F, 3.0F));
}

TEST(OutputRules, SuppressedAtTheBeginningOnly) {
  OutputRules rules;
  rules.suppressed_first = {3};
  EXPECT_TRUE(std::isinf(after(rules)[3]));
  EXPECT_FALSE(applies(rules, {kPrompt, 1, 10, kStops, kSource}));
  const Ids one = {0}, two = {0, 1};
  rules.forced_first = 1;
  EXPECT_FALSE(rules.surround_penalty());
  std::vector<float> scores(4);
  apply(rules, {two, 1, 10, kStops, one}, scores);
  EXPECT_TRUE(std::isinf(scores[3])) << "after the forced token";
}

TEST(OutputRules, RunsOfTheSourceDoNotOccur) {
  OutputRules rules;
  rules.source_no_repeat_ngram = 1;
  const std::vector<float> scores = after(rules);
  EXPECT_TRUE(std::isinf(scores[1]) && std::isinf(scores[3]));
  EXPECT_EQ(scores[0], 1.0F);
}

}  // namespace
}  // namespace vitrine::test
