// What ends a text besides its stop strings, and the sampler's steps that only servers offer.
#include "generate/text_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "constrain/small_vocabulary.h"
#include "generate/generator.h"
#include "generate/infill_choice.h"
#include "generate/sampler.h"
#include "generate/text_stream.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

/// The text before the first line that begins with fewer than n blanks, by lines.
std::string naive_indented(const std::string& text, std::size_t n) {
  for (std::size_t i = text.find('\n'); i != std::string::npos; i = text.find('\n', i + 1)) {
    const std::size_t first = text.find_first_not_of(" \t", i + 1);
    if (first != std::string::npos && first - i - 1 < n) return text.substr(0, i);
  }
  return text;
}

TEST(TextLimits, ATextEndsBeforeALineThatIsIndentedLess) {
  EXPECT_EQ(naive_indented("a\n  b\n c", 2), "a\n  b");
  std::mt19937 random(3);
  int n_ended = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    for (std::size_t k = random() % 24; k > 0; --k) text += " \t\nab"[random() % 5];
    const auto n = static_cast<std::int64_t>(1 + random() % 3);
    TextStream stream({}, random() % 2 == 0, false, n);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = 1 + random() % 5;
      shown += stream.push(text.substr(at, size));
      at += size;
    }
    shown += stream.flush();
    const std::string expected = naive_indented(text, static_cast<std::size_t>(n));
    ASSERT_EQ(shown, expected) << text;
    ASSERT_EQ(stream.stopped(), expected.size() < text.size());
    n_ended += stream.stopped() ? 1 : 0;
  }
  EXPECT_GT(n_ended, 1000);
}

TEST(TextLimits, RepetitionsAreThoseOfTheEnd) {
  const RepetitionLimit limit{2, 3, 3};
  EXPECT_TRUE(limit.is_reached(Ids{9, 1, 2, 1, 2, 1, 2}));
  EXPECT_TRUE(limit.is_reached(Ids{1, 2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_TRUE(limit.is_reached(Ids{7, 7, 7, 7, 7, 7}));
  EXPECT_FALSE(limit.is_reached(Ids{7, 7, 7, 7, 7}));
  EXPECT_FALSE(limit.is_reached(Ids{1, 2, 1, 2, 1, 2, 9}));
  EXPECT_FALSE(limit.is_reached(Ids{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}));
  EXPECT_FALSE(RepetitionLimit().is_reached(Ids{7, 7, 7, 7, 7}));
}

TEST(TextLimits, TheClockBeginsWithTheFirstToken) {
  TextClock clock;
  EXPECT_FALSE(clock.is_over({}));
  EXPECT_FALSE(clock.is_over({.t_max_predict_ms = 5}));
  std::this_thread::sleep_for(std::chrono::milliseconds(8));
  EXPECT_TRUE(clock.is_over({.t_max_predict_ms = 5}));
  EXPECT_FALSE(clock.is_over({.t_max_predict_ms = 60'000}));
}

/// Random tokens of five repeat soon; the text ends where its own end first repeats, and nowhere else.
TEST(TextLimits, AGeneratedTextEndsAtItsFirstRepetition) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  ThreadPool pool(2);
  const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  const RepetitionLimit limit{1, 3, 2};
  int n_ended = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    GenerateRequest request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 30;
    request.seed = seed;
    request.sampling = {.temperature = 1, .top_k = 2, .top_p = 1};
    const Ids all = generate(context, {&request, 1})[0].ids;
    request.limits.repetition = limit;
    const GenerateResult result = generate(context, {&request, 1})[0];
    std::size_t n = 1;
    while (n < all.size() && !limit.is_reached(std::span(all).first(n))) ++n;
    EXPECT_EQ(result.ids, Ids(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)));
    if (n == all.size()) continue;
    EXPECT_EQ(result.finish_reason, FinishReason::stop);
    ++n_ended;
  }
  EXPECT_GT(n_ended, 0);
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (const float logit : logits) p.push_back(std::exp((static_cast<double>(logit) - largest) / temperature));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& each : p) each /= sum;
  return p;
}

std::vector<float> some_logits(std::uint32_t seed, std::size_t n) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

/// The probabilities with which a sampler draws, by drawing.
std::vector<double> frequencies(const std::vector<float>& logits, const SamplingConfig& config, std::uint64_t n) {
  std::vector<double> counts(logits.size());
  Sampler sampler;
  for (std::uint64_t step = 0; step < n; ++step) {
    counts[static_cast<std::size_t>(sampler.sample(logits, {}, config, {1, 2, step}))] += 1.0 / static_cast<double>(n);
  }
  return counts;
}

TEST(SamplerSteps, TheTemperatureFollowsTheEntropy) {
  for (const double scale : {0.1, 1.0, 4.0}) {
    std::vector<float> logits = some_logits(7, 12);
    for (float& logit : logits) logit *= static_cast<float>(scale);
    const std::vector<double> p = softmax(logits, 1);
    double entropy = 0;
    for (const double each : p) entropy -= each * std::log(each);
    const double part = std::pow(entropy / std::log(12.0), 1.5);
    const std::vector<double> expected = softmax(logits, 0.3 + (1.3 - 0.3) * part);
    const SamplingConfig config{
        .temperature = 0.8, .top_k = 0, .top_p = 1, .dynatemp_range = 0.5, .dynatemp_exponent = 1.5};
    const std::vector<double> drawn = frequencies(logits, config, 40'000);
    Sampler sampler;
    const std::int32_t id = sampler.sample(logits, {}, config, {1, 2, 3});
    for (const TokenLogprob& each : sampler.drawn_from(12, id)) {
      const auto i = static_cast<std::size_t>(each.id);
      EXPECT_NEAR(std::exp(each.logprob), expected[i], 1e-12);
      EXPECT_NEAR(drawn[i], expected[i], 4 * std::sqrt(expected[i] / 40'000) + 1e-4);
    }
  }
}

TEST(SamplerSteps, FiltersLeaveAsManyTokensAsTheyShall) {
  const std::vector<float> logits = some_logits(9, 30);
  const std::vector<SamplingConfig> configs = {{.temperature = 1, .top_k = 0, .top_p = 0},
                                               {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 1},
                                               {.temperature = 1, .top_k = 0, .top_p = 1, .typical_p = 1e-6}};
  for (SamplingConfig config : configs) {
    for (const int least : {0, 1, 4, 100}) {
      config.min_keep = least;
      Sampler sampler;
      const std::int32_t id = sampler.sample(logits, {}, config, {});
      EXPECT_EQ(std::ssize(sampler.drawn_from(1000, id)), std::clamp(least, 1, 30));
    }
  }
  SamplingConfig xtc{.temperature = 1, .top_k = 5, .top_p = 1, .xtc_probability = 1, .xtc_threshold = 0.01};
  Sampler sampler;
  const std::int32_t id = sampler.sample(logits, {}, xtc, {});
  const std::size_t without = sampler.drawn_from(1000, id).size();
  EXPECT_LT(without, 5U);
  xtc.min_keep = static_cast<int>(without) + 1;  // it does not take place
  EXPECT_EQ(sampler.drawn_from(1000, sampler.sample(logits, {}, xtc, {})).size(), 5U);
}

TEST(SamplerSteps, DrawnFromHasTheTokenAndItsProbability) {
  const std::vector<float> logits = some_logits(4, 50);
  const SamplingConfig config{.temperature = 2, .top_k = 20, .top_p = 1};
  Sampler sampler;
  for (std::uint64_t step = 0; step < 50; ++step) {
    const std::int32_t id = sampler.sample(logits, {}, config, {0, 0, step});
    const std::vector<TokenLogprob> all = sampler.drawn_from(20, id), first = sampler.drawn_from(3, id);
    double sum = 0;
    for (const TokenLogprob& each : all) sum += std::exp(each.logprob);
    EXPECT_NEAR(sum, 1, 1e-12);
    EXPECT_TRUE(std::any_of(first.begin(), first.end(), [&](const TokenLogprob& each) { return each.id == id; }));
    EXPECT_LE(first.size(), 4U);
  }
  const std::int32_t best = sampler.sample(logits, {}, {.temperature = 0}, {});
  ASSERT_EQ(sampler.drawn_from(5, best).size(), 1U);
  EXPECT_EQ(sampler.drawn_from(5, best)[0].id, best);
  EXPECT_EQ(sampler.drawn_from(5, best)[0].logprob, 0);
}

/// What llama.cpp's sampler "infill" leaves, written as its source reads.
std::set<std::int32_t> naive_infill(const std::vector<std::string>& pieces, std::vector<double> p, std::int32_t stop) {
  const auto is_stop = [&](std::size_t i) { return static_cast<std::int32_t>(i) == stop; };
  const auto n = static_cast<double>(p.size());
  const double p_stop = p[static_cast<std::size_t>(stop)];
  if (3 * p_stop * n > 1 - p_stop) return {stop};
  std::vector<std::size_t> order(p.size());  // the likeliest first
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::vector<double> first = p;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return first[a] > first[b]; });
  for (const std::size_t i : order) {
    for (const std::size_t j : order) {
      if (p[i] == 0) break;
      if (i == j || p[j] == 0 || is_stop(i) || is_stop(j) || !pieces[j].starts_with(pieces[i])) continue;
      std::size_t to = i, from = j;
      if (p[j] > p[i]) std::swap(to, from);
      p[to] += p[from];
      p[from] = 0;
    }
  }
  for (const bool is_second : {false, true}) {
    double sum = 0, n_texts = 0;
    for (std::size_t i = 0; i < p.size(); ++i) n_texts += p[i] > 0 && !is_stop(i) ? 1 : 0;
    const double least = is_second ? 1 / (n_texts + 1) : 0.2;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i] < least && !is_stop(i)) p[i] = 0;
      sum += p[i];
    }
    bool has_text = false;
    for (std::size_t i = 0; i < p.size(); ++i) has_text = has_text || (p[i] > 0 && !is_stop(i));
    if (!has_text) return {stop};
    for (double& each : p) each /= sum;
  }
  std::set<std::int32_t> left;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) left.insert(static_cast<std::int32_t>(i));
  }
  return left;
}

TEST(SamplerSteps, InfillLeavesWhatLlamaCppLeaves) {
  const std::vector<std::string> pieces = {"a", "ab", "abc", "b", "ba", " a", " ab", "c", "cc", "d"};
  const ListTokenizer tokenizer(pieces);
  const auto vocabulary = std::make_shared<const constrain::Vocabulary>(tokenizer);
  const std::int32_t stop = 10;
  std::mt19937 random(11);
  std::set<std::size_t> sizes;
  for (int i = 0; i < 2000; ++i) {
    std::vector<float> logits = some_logits(static_cast<std::uint32_t>(random()), 11);
    for (float& logit : logits) logit *= static_cast<float>(random() % 5);
    logits[10] -= static_cast<float>(random() % 9);
    std::vector<std::string> all = pieces;
    all.emplace_back("");
    SamplingConfig config{.temperature = 1, .top_k = 0, .top_p = 1};
    config.infill = std::make_shared<const InfillChoice>(vocabulary, Ids{stop});
    Sampler sampler;
    const std::int32_t id = sampler.sample(logits, {}, config, {0, 0, 0});
    std::set<std::int32_t> left;
    for (const TokenLogprob& each : sampler.drawn_from(100, id)) left.insert(each.id);
    ASSERT_EQ(left, naive_infill(all, softmax(logits, 1), stop)) << i;
    sizes.insert(left.size());
  }
  EXPECT_GE(sizes.size(), 2U);
}

}  // namespace
}  // namespace vitrine::test
