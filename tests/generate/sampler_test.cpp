// The sampler, compared with a reference that sorts all candidates; its documented properties; invalid arguments.
#include "generate/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "generate/dry.h"

namespace vitrine {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Ids = std::vector<std::int32_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<double> naive_penalty(const std::vector<float>& logits, const Ids& history, double penalty) {
  std::vector<double> scores(logits.begin(), logits.end());
  for (std::int32_t id : std::set<std::int32_t>(history.begin(), history.end())) {
    double& score = scores[static_cast<std::size_t>(id)];
    score = score > 0 ? score / penalty : score * penalty;
  }
  return scores;
}

struct Choice {
  std::int32_t id;
  double probability;
};

/// The tokens that the filters leave with their probabilities: everything sorted, each step a full distribution.
std::vector<Choice> naive_choices(const std::vector<float>& logits, const Ids& history, const SamplingConfig& config) {
  const std::vector<double> scores = naive_penalty(logits, history, config.repeat_penalty);
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](std::int32_t id) { return scores[static_cast<std::size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return score(a) > score(b); });
  if (config.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(config.top_k)));

  std::vector<Choice> choices;
  const auto normalize = [&] {
    double total = 0;
    for (const Choice& choice : choices) total += choice.probability;
    for (Choice& choice : choices) choice.probability /= total;
  };
  for (std::int32_t id : order) choices.push_back({id, std::exp((score(id) - score(order[0])) / config.temperature)});
  normalize();
  if (config.top_p < 1) {
    double sum = 0;
    std::size_t kept = 0;
    do sum += choices[kept++].probability;
    while (kept < choices.size() && sum < config.top_p);
    choices.resize(kept);
    normalize();
  }
  const double least = config.min_p * choices[0].probability;
  std::erase_if(choices, [&](const Choice& choice) { return choice.probability < least; });
  normalize();
  return choices;
}

std::int32_t naive_sample(const std::vector<float>& logits, const Ids& history, const SamplingConfig& config,
                          const DrawKey& key) {
  double left = uniform(key.seed, key.sequence, key.step);
  const std::vector<Choice> choices = naive_choices(logits, history, config);
  for (const Choice& choice : choices) {
    if (left < choice.probability) return choice.id;
    left -= choice.probability;
  }
  return choices.back().id;
}

std::vector<float> random_logits(std::mt19937& random, std::size_t n, bool ties) {
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(n);
  for (float& logit : logits) {
    logit = normal(random);
    if (ties) logit = std::round(logit);
    if (random() % 20 == 0) logit = -kInf;
  }
  logits[random() % n] = 1;  // never all -inf
  return logits;
}

std::int32_t argmax(const std::vector<double>& scores) {
  return static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

TEST(Sampler, AsTheReference) {
  std::mt19937 random(1);
  const auto pick = [&](std::initializer_list<double> values) { return values.begin()[random() % values.size()]; };
  for (std::uint64_t step = 0; step < 20000; ++step) {
    const std::size_t n = 1 + random() % 100;
    const std::vector<float> logits = random_logits(random, n, step % 2 == 0);
    Ids history(random() % 20);
    for (std::int32_t& id : history) id = static_cast<std::int32_t>(random() % n);
    const SamplingConfig config{.temperature = pick({0.1, 0.8, 1, 3}),
                                .top_k = static_cast<int>(pick({0, 1, 2, 7, 40, 1000})),
                                .top_p = pick({0.01, 0.33, 0.77, 0.95, 1}),
                                .min_p = pick({0, 0.03, 0.4, 1}),
                                .repeat_penalty = pick({1, 1, 1.3, 0.7})};
    const DrawKey key{7, 3, step};
    ASSERT_EQ(sample(logits, history, config, key), naive_sample(logits, history, config, key)) << step;
  }
}

/// The candidates are sorted only as far as a draw needs them.
TEST(Sampler, AsTheReferenceOverLargeVocabularies) {
  std::mt19937 random(5);
  for (std::uint64_t step = 0; step < 400; ++step) {
    const std::vector<float> logits = random_logits(random, 1 + random() % 5000, step % 2 == 0);
    const SamplingConfig config{.temperature = step % 3 == 0 ? 30.0 : 1.0,  // almost uniform: draws are far down
                                .top_k = step % 5 == 0 ? 900 : 0,
                                .top_p = step % 7 == 0 ? 0.97 : 1,
                                .min_p = step % 11 == 0 ? 1e-4 : 0};
    const DrawKey key{9, 1, step};
    ASSERT_EQ(sample(logits, {}, config, key), naive_sample(logits, {}, config, key)) << step;
  }
}

TEST(Sampler, EveryChoiceOfTheReferenceIsDrawnAndNoOther) {
  std::mt19937 random(2);
  const std::vector<SamplingConfig> configs = {{.temperature = 1, .top_k = 3, .top_p = 1},
                                               {.temperature = 2, .top_k = 0, .top_p = 0.6},
                                               {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0.2}};
  for (const SamplingConfig& config : configs) {
    const std::vector<float> logits = random_logits(random, 12, true);
    std::set<std::int32_t> drawn, expected;
    for (std::uint64_t step = 0; step < 3000; ++step) drawn.insert(sample(logits, {}, config, {1, 0, step}));
    for (const Choice& choice : naive_choices(logits, {}, config)) expected.insert(choice.id);
    EXPECT_EQ(drawn, expected);
  }
}

TEST(Sampler, TopPStopsWhereItReachesP) {
  const std::vector<float> logits(4, 1.0F);  // a quarter each
  for (const auto& [top_p, kept] : std::map<double, std::size_t>{{0.25, 1}, {0.5, 2}, {0.51, 3}, {0.75, 3}, {1, 4}}) {
    std::set<std::int32_t> drawn;
    for (std::uint64_t step = 0; step < 200; ++step) {
      drawn.insert(sample(logits, {}, {.temperature = 1, .top_p = top_p}, {0, 0, step}));
    }
    EXPECT_EQ(drawn.size(), kept) << top_p;
  }
}

TEST(Sampler, WhatIsTheSameAsArgmax) {
  std::mt19937 random(3);
  const std::vector<SamplingConfig> greedy = {{.temperature = 0},
                                              {.temperature = 0, .top_k = 0, .top_p = 1, .repeat_penalty = 1.5},
                                              {.temperature = 1, .top_k = 1, .top_p = 1, .repeat_penalty = 1.5},
                                              {.temperature = 1, .top_k = 0, .top_p = 1e-300, .repeat_penalty = 0.5},
                                              {.temperature = 5, .top_k = 3, .top_p = 1e-9}};
  for (std::uint64_t step = 0; step < 2000; ++step) {
    const std::vector<float> logits = random_logits(random, 50, true);
    const Ids history = {3, 3, 17, 49, 0};
    for (const SamplingConfig& config : greedy) {
      const std::int32_t expected = argmax(naive_penalty(logits, history, config.repeat_penalty));
      ASSERT_EQ(sample(logits, history, config, {step, 0, 0}), expected);
    }
  }
}

TEST(Sampler, ExtremeTemperatures) {
  const std::vector<float> logits = {-3e38F, 3e38F, 2.9e38F, -kInf};
  EXPECT_EQ(sample(logits, {}, {.temperature = 1e-320, .top_k = 0, .top_p = 1}, {}), 1);
  std::map<std::int32_t, int> counts;
  for (std::uint64_t step = 0; step < 3000; ++step) {
    ++counts[sample(logits, {}, {.temperature = 1e300, .top_k = 0, .top_p = 1}, {0, 0, step})];
  }
  EXPECT_EQ(counts.size(), 3U);  // all alike, and the impossible one never
  EXPECT_EQ(counts.count(3), 0U);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {1.5F, 0.0F, -1.0F, 2.0F, 0.5F, 2.0F, -0.5F, 1.0F};
  const SamplingConfig config{.temperature = 1.3, .top_k = 0, .top_p = 1};
  const int n = 40000;
  std::map<std::int32_t, int> counts;
  for (std::uint64_t step = 0; step < n; ++step) ++counts[sample(logits, {}, config, {42, 5, step})];
  double chi_square = 0;
  for (const Choice& choice : naive_choices(logits, {}, config)) {
    const double expected = n * choice.probability;
    chi_square += std::pow(counts[choice.id] - expected, 2) / expected;
  }
  EXPECT_LT(chi_square, 24.3);  // 7 degrees of freedom: exceeded once in 1,000
}

TEST(Sampler, TheDrawDependsOnItsKeyAlone) {
  const std::vector<float> logits(1000, 0.0F);
  const SamplingConfig config{.temperature = 1, .top_k = 0, .top_p = 1};
  const std::int32_t first = sample(logits, {}, config, {1, 2, 3});
  EXPECT_EQ(sample(logits, {}, config, {1, 2, 3}), first);
  EXPECT_EQ(first, static_cast<std::int32_t>(uniform(1, 2, 3) * 1000));  // equal logits: candidates in order of ids
  EXPECT_NE(sample(logits, {}, config, {2, 2, 3}), first);
  EXPECT_NE(sample(logits, {}, config, {1, 3, 3}), first);
  EXPECT_NE(sample(logits, {}, config, {1, 2, 4}), first);
}

TEST(Sampler, PenaltyByHand) {
  const std::vector<float> logits = {2.0F, 1.5F, -1.0F};
  EXPECT_EQ(sample(logits, {}, {.temperature = 0, .repeat_penalty = 2}, {}), 0);
  EXPECT_EQ(sample(logits, Ids{0, 0, 0}, {.temperature = 0, .repeat_penalty = 1.3}, {}), 0);  // 1.54: once, not thrice
  EXPECT_EQ(sample(logits, Ids{0}, {.temperature = 0, .repeat_penalty = 2}, {}), 1);
  const std::vector<float> negative = {-1.0F, -1.5F};
  EXPECT_EQ(sample(negative, Ids{0}, {.temperature = 0, .repeat_penalty = 2}, {}), 1);  // -2: multiplied, not divided
}

TEST(Sampler, PenaltiesSeeTheLastTokens) {
  const std::vector<float> logits = {2, 1.9F, 1.8F};
  const auto with = [&](double repeat, double presence, int last_n) {
    const SamplingConfig config{
        .temperature = 0, .repeat_penalty = repeat, .presence_penalty = presence, .repeat_last_n = last_n};
    return sample(logits, Ids{2, 1, 0}, config, {}, 3);
  };
  EXPECT_EQ(with(4, 0, -1), 0) << "all are penalized";
  EXPECT_EQ(with(4, 0, 0), 0) << "none is";
  EXPECT_EQ(with(4, 0, 1), 1);
  EXPECT_EQ(with(4, 0, 2), 2);
  EXPECT_EQ(with(4, 0, 9), 0);
  EXPECT_EQ(with(1, 1, 1), 1);
  EXPECT_EQ(with(1, 1, 2), 2);
}

TEST(Sampler, LogitsThatGiveNoToken) {
  const auto refused = [](const std::vector<float>& logits, const char* message) {
    for (double temperature : {0.0, 1.0}) {
      EXPECT_THAT([&] { sample(logits, {}, {.temperature = temperature}, {}); },
                  ThrowsMessage<BadInput>(HasSubstr(message)));
    }
    EXPECT_THROW(top_logprobs(logits, 1), BadInput);
    EXPECT_THROW(logprob(logits, 0), BadInput);
  };
  refused({0, NAN, 1}, "got nan for id 1");
  refused({0, 1, -NAN}, "for id 2");
  refused({0, kInf}, "got inf for id 1");
  refused({-kInf, -kInf}, "got 2 logits of -inf");
  EXPECT_THROW(sample({}, {}, {}, {}), BadInput);
  const std::vector<float> logits = {0, 3e38F};
  EXPECT_THROW(sample(logits, Ids{2}, {.repeat_penalty = 2}, {}), BadInput);
  EXPECT_THROW(sample(logits, Ids{-1}, {.repeat_penalty = 2}, {}), BadInput);
  EXPECT_THROW(sample(logits, Ids{1}, {.repeat_penalty = 1e-300}, {}), BadInput);
}

/// The ids that transformers keeps of the same logits.
TEST(Sampler, FiltersByProbabilityKeepWhatTransformersKeeps) {
  const std::vector<float> flat = {2.0F, 1.5F, 1.0F, 0.2F, -0.5F, -1.0F, -3.0F, 0.9F};
  std::vector<float> steep = flat;
  steep[0] = 6;
  const auto kept = [](const std::vector<float>& logits, SamplingConfig config) {
    config.temperature = config.top_p = 1;
    config.top_k = 0;
    std::vector<std::int32_t> ids;
    for (const FunnelToken& token : sampling_funnel(logits, {}, config)) {
      if (token.removed == 0) ids.push_back(token.id);
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  EXPECT_EQ(kept(flat, {.typical_p = 0.2}), (Ids{1}));
  EXPECT_EQ(kept(flat, {.typical_p = 0.5}), (Ids{1, 2, 7}));
  EXPECT_EQ(kept(flat, {.typical_p = 0.8}), (Ids{0, 1, 2, 7}));
  EXPECT_EQ(kept(flat, {.typical_p = 0.95}), (Ids{0, 1, 2, 3, 4, 7}));
  EXPECT_EQ(kept(steep, {.typical_p = 0.2}), (Ids{0}));
  EXPECT_EQ(kept(flat, {.epsilon_cutoff = 0.05}), (Ids{0, 1, 2, 3, 7}));
  EXPECT_EQ(kept(flat, {.epsilon_cutoff = 0.2}), (Ids{0, 1}));
  EXPECT_EQ(kept(flat, {.epsilon_cutoff = 0.9}), (Ids{0}));
  EXPECT_EQ(kept(flat, {.eta_cutoff = 0.01}), (Ids{0, 1, 2, 3, 4, 5, 7}));
  EXPECT_EQ(kept(flat, {.eta_cutoff = 0.3}), (Ids{0, 1, 2, 7}));
  EXPECT_EQ(kept(flat, {.eta_cutoff = 0.9}), (Ids{0, 1}));
  EXPECT_EQ(kept(steep, {.eta_cutoff = 0.001}), (Ids{0, 1, 2, 3, 4, 7}));
  EXPECT_EQ(sample(flat, {}, {.temperature = 1, .top_k = 0, .top_p = 0}, {}), 0) << "the most likely token";
}

TEST(Sampler, TopNSigmaKeepsLogitsNearTheLargest) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const std::vector<float> logits = random_logits(random, 2 + random() % 60, false);
    const double n_sigma = 0.25 * static_cast<double>(1 + random() % 12);
    double sum = 0, squares = 0, n = 0;
    for (const float x : logits) {
      if (x > -kInf) sum += static_cast<double>(x), ++n;
    }
    for (const float x : logits) {
      if (x > -kInf) squares += std::pow(static_cast<double>(x) - sum / n, 2);
    }
    const double least =
        static_cast<double>(*std::max_element(logits.begin(), logits.end())) - n_sigma * std::sqrt(squares / n);
    std::set<std::int32_t> expected, found;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (static_cast<double>(logits[i]) >= least) expected.insert(static_cast<std::int32_t>(i));
    }
    SamplingConfig config{.temperature = 2, .top_k = 0, .top_p = 1};
    config.top_n_sigma = n_sigma;
    for (const FunnelToken& token : sampling_funnel(logits, {}, config)) {
      if (token.removed == 0) found.insert(token.id);
    }
    EXPECT_EQ(found, expected);
  }
}

/// With its probability, XTC leaves the least likely of the likely tokens and those below the threshold.
TEST(Sampler, XtcRemovesTheLikelyTokensAsOftenAsItSays) {
  const std::vector<float> logits = {std::log(0.4F), std::log(0.3F), std::log(0.2F), std::log(0.1F)};
  SamplingConfig config{.temperature = 1, .top_k = 0, .top_p = 1};
  config.xtc_probability = 0.6;
  config.xtc_threshold = 0.15;
  constexpr int kDraws = 20'000;
  std::map<std::int32_t, double> share;
  for (std::uint64_t step = 0; step < kDraws; ++step) share[sample(logits, {}, config, {5, 1, step})] += 1.0 / kDraws;
  // Where it takes place, 0.2 and 0.1 remain: 2/3 and 1/3.
  const double expected[] = {0.4 * 0.4, 0.4 * 0.3, 0.4 * 0.2 + 0.6 * 2 / 3, 0.4 * 0.1 + 0.6 / 3};
  for (std::int32_t id = 0; id < 4; ++id) EXPECT_NEAR(share[id], expected[id], 0.015) << id;
  config.xtc_threshold = 0.35;  // one likely token stays
  std::set<std::int32_t> seen;
  for (std::uint64_t step = 0; step < 200; ++step) seen.insert(sample(logits, {}, config, {5, 1, step}));
  EXPECT_TRUE(seen.contains(0));
}

/// The longest match of the end of the text before each of its tokens, by trying all.
std::map<std::int32_t, std::size_t> naive_repeats(const Ids& ids, std::size_t allowed, std::size_t limit) {
  std::map<std::int32_t, std::size_t> repeats;
  for (std::size_t next = 1; next < ids.size(); ++next) {
    std::size_t n = 0;
    while (n < next && n < limit && ids[next - 1 - n] == ids[ids.size() - 1 - n]) ++n;
    if (n >= allowed && n > 0) repeats[ids[next]] = std::max(repeats[ids[next]], n);
  }
  return repeats;
}

TEST(Sampler, DryFindsEveryRepetition) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    Ids ids(random() % 40);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 3);
    const std::size_t allowed = random() % 4, limit = random() % 12;
    const auto expected = ids.size() > allowed && limit >= allowed ? naive_repeats(ids, allowed, limit)
                                                                   : std::map<std::int32_t, std::size_t>();
    EXPECT_EQ(dry_repeats(ids, allowed, limit), expected);
  }
  // 1 2 3 | 1 2: 3 would continue a repetition of two tokens.
  const std::vector<float> logits = {0, 0, 0, 1};
  const Ids history = {1, 2, 3, 1, 2};
  SamplingConfig config{.temperature = 0};
  EXPECT_EQ(sample(logits, history, config, {}), 3);
  config.dry_multiplier = 0.9;
  EXPECT_EQ(sample(logits, history, config, {}), 3) << "1 - 0.9";
  config.dry_multiplier = 1.1;
  EXPECT_EQ(sample(logits, history, config, {}), 0);
  config.dry_allowed_length = 3;
  EXPECT_EQ(sample(logits, history, config, {}), 3);
  config.dry_allowed_length = 1;
  config.dry_multiplier = 0.6;
  EXPECT_EQ(sample(logits, history, config, {}), 0) << "0.6 · 1.75";
  config.dry_penalty_last_n = 3;
  EXPECT_EQ(sample(logits, history, config, {}), 3);
}

TEST(Sampler, ValuesOutsideTheirRangeAreNamed) {
  const auto refused = [](const SamplingConfig& config, const char* name) {
    EXPECT_THAT([&] { config.validate(); }, ThrowsMessage<BadInput>(HasSubstr(name)));
    EXPECT_THROW(sample(std::vector<float>{0}, {}, config, {}), BadInput);
  };
  SamplingConfig().validate();
  SamplingConfig{.temperature = 0, .top_k = 0, .top_p = 1, .min_p = 1, .repeat_penalty = 0.1}.validate();
  for (double value : {-0.1, static_cast<double>(kInf), static_cast<double>(NAN)}) {
    refused({.temperature = value}, "[temperature] expected a finite number >= 0");
    refused({.top_p = value}, "[top_p] expected a number in [0, 1]");
    refused({.min_p = value}, "[min_p] expected a number in [0, 1]");
    refused({.repeat_penalty = value}, "[repeat_penalty] expected a finite number > 0");
  }
  refused({.top_k = -1}, "[top_k] expected a number >= 0");
  refused({.top_p = 1.01}, "[top_p]");
  refused({.min_p = 1.01}, "[min_p]");
  refused({.repeat_penalty = 0}, "[repeat_penalty]");
}

TEST(Logprobs, SumToOneAndKeepTheOrder) {
  std::mt19937 random(4);
  const std::vector<float> logits = random_logits(random, 300, true);
  const std::vector<TokenLogprob> all = top_logprobs(logits, 1000);
  ASSERT_EQ(all.size(), logits.size());
  double total = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    total += std::exp(all[i].logprob);
    EXPECT_EQ(all[i].logprob, logprob(logits, all[i].id));
    if (i == 0) continue;
    EXPECT_TRUE(all[i - 1].logprob > all[i].logprob ||
                (all[i - 1].logprob == all[i].logprob && all[i - 1].id < all[i].id));
  }
  EXPECT_NEAR(total, 1, 1e-12);
  EXPECT_EQ(all.back().logprob, -kInf);
  const std::vector<TokenLogprob> top = top_logprobs(logits, 5);
  ASSERT_EQ(top.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(top[i].id, all[i].id);
  EXPECT_TRUE(top_logprobs(logits, 0).empty());
}

TEST(Logprobs, ByHandAndErrors) {
  const std::vector<float> logits = {1000.0F, 1000.0F, -kInf};
  EXPECT_NEAR(logprob(logits, 1), -std::log(2.0), 1e-12);
  EXPECT_EQ(logprob(logits, 2), -kInf);
  EXPECT_THROW(logprob(logits, 3), BadInput);
  EXPECT_THROW(logprob(logits, -1), BadInput);
  EXPECT_THROW(top_logprobs(logits, -1), BadInput);
}

TEST(Sampler, BiasAndPenaltiesChangeTheLogitsInTheirOrder) {
  const std::vector<float> logits = {1, 2, 3, 4};
  const std::vector<std::int32_t> history = {3, 2, 2, 3};  // the last three are generated
  const auto greedy = [&](SamplingConfig config, std::size_t n_generated) {
    config.temperature = 0;
    return sample(logits, history, config, {}, n_generated);
  };
  EXPECT_EQ(greedy({.logit_bias = {{0, 4.0}}}, 0), 0);
  EXPECT_EQ(greedy({.presence_penalty = 1.5}, 0), 3);  // the prompt has no penalty
  EXPECT_EQ(greedy({.presence_penalty = 2.5}, 3), 1);
  EXPECT_EQ(greedy({.frequency_penalty = 0.9}, 3), 3);  // 3: 4 - 0.9; 2: 3 - 1.8
  EXPECT_EQ(greedy({.frequency_penalty = 0.9}, 2), 3);
  EXPECT_EQ(greedy({.frequency_penalty = -2}, 3), 2);  // 2 was generated twice: 3 + 4
  // The bias comes before the repeat penalty: (4 - 5) * 2 = -2, and (3 - 3.5) * 2 = -1.
  EXPECT_EQ(greedy({.repeat_penalty = 2, .logit_bias = {{3, -5.0}, {2, -3.5}, {1, -9.0}, {0, -9.0}}}, 3), 2);
}

TEST(Sampler, RejectsABiasOfAnUnknownIdAndPenaltiesThatAreNotFinite) {
  const std::vector<float> logits = {1, 2};
  EXPECT_THROW(sample(logits, {}, {.logit_bias = {{2, 1.0}}}, {}), BadInput);
  EXPECT_THROW(sample(logits, {}, {.logit_bias = {{-1, 1.0}}}, {}), BadInput);
  EXPECT_THROW(sample(logits, {}, {.frequency_penalty = std::nan("")}, {}), BadInput);
  EXPECT_THROW(sample(logits, {}, {.logit_bias = {{0, std::numeric_limits<double>::infinity()}}}, {}), BadInput);
}

}  // namespace
}  // namespace vitrine
