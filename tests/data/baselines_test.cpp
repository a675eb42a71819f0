// Compares n-gram models with their definitions (tools/goldens ngrams).
#include "data/baselines.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

TEST(Baselines, EqualTheirDefinitions) {
  const Json cases = Json::parse(std::ifstream(source_dir() + "/tests/data/ngrams.json"));
  EXPECT_EQ(cases.size(), 3U);
  ThreadPool pool(2);
  for (const auto& [name, text] : cases.items()) {
    const auto train = text["train"].get<std::vector<std::int32_t>>();
    const auto held_out = text["held_out"].get<std::vector<std::int32_t>>();
    const NgramCounts counts(train, text["vocab_size"].get<std::int64_t>());
    for (int order = 1; order <= NgramCounts::kMaxOrder; ++order) {
      const auto expected = text["cross_entropy"][static_cast<std::size_t>(order - 1)].get<double>();
      EXPECT_NEAR(counts.cross_entropy(held_out, order, pool), expected, 1e-12 * expected) << name << " " << order;
    }
  }
}

/// Text of a Markov chain with two states: the bigram's cross-entropy is the entropy of the chain, and the unigram's is
/// that of the single letters.
TEST(Baselines, FindTheEntropyOfAChain) {
  std::mt19937 random(1);
  std::vector<std::int32_t> ids(400'000);
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const bool stays = random() % 10 != 0;  // the state changes with probability 0.1
    ids[i] = stays ? ids[i - 1] : 1 - ids[i - 1];
  }
  const std::span<const std::int32_t> all(ids);
  const NgramCounts counts(all.first(300'000), 2);
  ThreadPool one(1), three(3);
  const double entropy = -(0.9 * std::log(0.9) + 0.1 * std::log(0.1));
  EXPECT_NEAR(counts.cross_entropy(all.subspan(300'000), 1, one), std::log(2.0), 0.002);
  EXPECT_NEAR(counts.cross_entropy(all.subspan(300'000), 2, one), entropy, 0.005);
  for (int order = 1; order <= NgramCounts::kMaxOrder; ++order) {
    EXPECT_EQ(counts.cross_entropy(all.subspan(300'000), order, one),
              counts.cross_entropy(all.subspan(300'000), order, three));
  }
}

TEST(Baselines, RefuseIdsThatTheyCannotCount) {
  const std::vector<std::int32_t> ids = {0, 1, 2, 1}, beyond = {0, 3}, negative = {0, -1}, one = {1};
  ThreadPool pool(1);
  EXPECT_THROW(NgramCounts({}, 3), BadInput);
  EXPECT_THROW(NgramCounts(beyond, 3), BadInput);
  EXPECT_THROW(NgramCounts(negative, 3), BadInput);
  const NgramCounts counts(ids, 3);
  EXPECT_THROW(counts.cross_entropy(one, 2, pool), BadInput);
  EXPECT_THROW(counts.cross_entropy(beyond, 2, pool), BadInput);
  EXPECT_TRUE(std::isfinite(NgramCounts(one, 3).cross_entropy(ids, 5, pool)));
}

}  // namespace
}  // namespace vitrine::test
