// Scores of classifiers, taggers, searches and answers, against scikit-learn, seqeval and sentence-transformers
// (tools/goldens/text_scores.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "base/json.h"
#include "metrics/answer_scores.h"
#include "metrics/class_scores.h"
#include "metrics/ranking_scores.h"

namespace vitrine::test {
namespace {

using Scores = std::vector<NamedScore>;

std::vector<bool> flags(const Json& json) {
  std::vector<bool> result;
  for (const Json& flag : json) result.push_back(flag.get<bool>());
  return result;
}

Scores scores_of_tags(const Json& c) {
  std::vector<TagCounts> counts;
  for (std::size_t i = 0; i < c["truths"].size(); ++i) {
    counts.push_back(
        count_tags(c["predicted"][i].get<std::vector<std::string>>(), c["truths"][i].get<std::vector<std::string>>()));
  }
  return tag_scores(counts, all_numbers(counts.size()));
}

Scores scores_of_queries(const Json& c) {
  std::vector<Scores> queries;
  for (const Json& query : c["queries"]) {
    const std::vector<bool> is_relevant = flags(query["relevant"]);
    queries.push_back(query.contains("n") ? query_scores({is_relevant, query["n"].get<std::int64_t>()})
                                          : rerank_scores(query["scores"].get<std::vector<double>>(), is_relevant));
  }
  return mean_scores(queries, all_numbers(queries.size()));
}

Scores scores_of(const Json& c) {
  const std::string kind = c["kind"];
  if (kind == "tags") return scores_of_tags(c);
  if (kind == "answer")
    return answer_scores(c["answer"].get<std::string>(), c["truths"].get<std::vector<std::string>>());
  if (kind == "searches" || kind == "rerankings") return scores_of_queries(c);
  if (kind == "numbers") {
    const auto predicted = c["predicted"].get<std::vector<double>>(), truths = c["truths"].get<std::vector<double>>();
    return number_scores(predicted, truths, all_numbers(truths.size()));
  }
  const ClassPredictions p{c["several"], c["scores"].get<std::vector<std::vector<double>>>(),
                           c["truths"].get<std::vector<std::vector<double>>>()};
  return class_scores(p, all_numbers(p.truths.size()));
}

TEST(TextScores, EqualTheUsualPackages) {
  std::ifstream file(std::string(VITRINE_SOURCE_DIR) + "/tests/metrics/text_scores.json");
  for (const Json& c : Json::parse(file)) {
    SCOPED_TRACE(c["kind"].get<std::string>() + " " + c.value("answer", ""));
    std::map<std::string, double> found;
    for (const NamedScore& score : scores_of(c)) found[score.name] = score.value;
    EXPECT_EQ(found.size(), c["expected"].size());
    for (const auto& [name, value] : c["expected"].items()) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_NEAR(found[name], value.get<double>(), 1e-12) << name;
    }
  }
}

TEST(TextScores, WhatDoesNotExistIsNoNumber) {
  EXPECT_TRUE(std::isnan(area_under_curve(std::vector<double>{0.1, 0.2}, std::vector<double>{1, 1})));
  EXPECT_TRUE(std::isnan(pearson(std::vector<double>{1, 1, 1}, std::vector<double>{1, 2, 3})));
  EXPECT_EQ(rerank_scores(std::vector<double>{1, 2}, {false, false})[0].value, 0);
  EXPECT_EQ(answer_scores("", {})[0].value, 1);
  EXPECT_EQ(answer_scores("x", {})[0].value, 0);
}

TEST(PairedDifferences, ContainTheDifferenceAndAreTheSameEachTime) {
  // One model is right about 60 examples of 100, the other about 50 of them and 5 others.
  const auto accuracy = [](auto is_right) {
    return [is_right](std::span<const std::size_t> numbers) {
      double n = 0;
      for (const std::size_t i : numbers) n += is_right(i) ? 1 : 0;
      return Scores{{"accuracy", n / static_cast<double>(numbers.size())}};
    };
  };
  const auto own = accuracy([](std::size_t i) { return i < 60; });
  const auto other = accuracy([](std::size_t i) { return i < 50 || i >= 95; });
  const PairedDifference d = paired_differences(100, own, other)[0];
  EXPECT_NEAR(d.difference, 0.05, 1e-12);
  EXPECT_NEAR(d.other, 0.55, 1e-12);
  // The standard error is √((10 + 5 − 0.25) / 100²) = 0.038: the normal interval is −0.025 to 0.125.
  EXPECT_NEAR(d.low, -0.025, 0.015);
  EXPECT_NEAR(d.high, 0.125, 0.015);
  EXPECT_EQ(paired_differences(100, own, other)[0].low, d.low);
  const PairedDifference none = paired_differences(100, own, own)[0];
  EXPECT_EQ(none.low, 0);
  EXPECT_EQ(none.high, 0);
}

}  // namespace
}  // namespace vitrine::test
