// Comparisons of two models, against plain arithmetic on their logits.
#include "inspect/model_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

std::vector<double> log_softmax(std::span<const float> logits) {
  double most = -1e300, sum = 0;
  for (const float x : logits) most = std::max(most, static_cast<double>(x));
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
  std::vector<double> out;
  for (const float x : logits) out.push_back(static_cast<double>(x) - most - std::log(sum));
  return out;
}

struct Two {
  Checkpoint own = golden_checkpoint("llama_mha"), other = golden_checkpoint("llama_mha");
  ThreadPool pool{2};
  std::vector<std::int32_t> ids = some_ids(*own.model, 20);
  GenerateContext of_own = {own.model.get(), &pool, &default_kernels()};
  GenerateContext of_other = {other.model.get(), &pool, &default_kernels()};
};

TEST(ModelComparison, AModelAgainstItselfIsZero) {
  Two two;
  ModelComparison comparison(two.of_own, two.of_other, true);
  const double nats = comparison.add(two.ids, 0);
  const ModelDifference d = comparison.result();
  EXPECT_EQ(d.tokens, 19);
  EXPECT_EQ(d.nats, nats);
  EXPECT_EQ(d.own_nats, d.nats);
  EXPECT_EQ(d.kl.mean, 0);
  EXPECT_EQ(d.kl.max, 0);
  EXPECT_EQ(d.kl.stderr_of_mean, 0);
  EXPECT_EQ(d.same_top, 1);
  EXPECT_EQ(d.dp_rms, 0);
  EXPECT_EQ(d.resid_errors, std::vector<double>(two.own.model->config().n_layers(), 0.0));
}

/// The other model rounds its keys and values to bfloat16.
TEST(ModelComparison, EqualsArithmeticOnTheLogits) {
  Two two;
  two.of_other.kv_types = KvType::bf16;
  const std::span<const std::int32_t> fed = std::span(two.ids).first(19);
  ModelComparison comparison(two.of_own, two.of_other, true);
  comparison.add(two.ids, 3);
  const ModelDifference d = comparison.result();
  const std::vector<float> own = logits_of(*two.own.model, fed);
  const std::vector<float> other = logits_of(*two.other.model, fed, {.kv_types = KvType::bf16});
  const auto n = static_cast<std::size_t>(two.own.model->config().vocab_size);
  std::vector<double> kls;
  double nats = 0, own_nats = 0, square = 0, same = 0;
  for (std::size_t row = 3; row < 19; ++row) {
    const auto q = log_softmax(std::span(own).subspan(row * n, n)),
               p = log_softmax(std::span(other).subspan(row * n, n));
    double kl = 0;
    for (std::size_t i = 0; i < n; ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
    kls.push_back(kl);
    const auto target = static_cast<std::size_t>(two.ids[row + 1]);
    nats -= p[target], own_nats -= q[target];
    square += std::pow(std::exp(p[target]) - std::exp(q[target]), 2);
    same += std::max_element(p.begin(), p.end()) - p.begin() == std::max_element(q.begin(), q.end()) - q.begin();
  }
  double mean = 0, variance = 0;
  for (const double kl : kls) mean += kl / 16;
  for (const double kl : kls) variance += std::pow(kl - mean, 2) / 15;
  std::sort(kls.begin(), kls.end());
  EXPECT_GT(mean, 0);
  EXPECT_EQ(d.tokens, 16);
  EXPECT_NEAR(d.nats, nats, 1e-9);
  EXPECT_NEAR(d.own_nats, own_nats, 1e-9);
  EXPECT_NEAR(d.kl.mean, mean, 1e-12);
  EXPECT_NEAR(d.kl.stderr_of_mean, std::sqrt(variance / 16), 1e-12);
  EXPECT_NEAR(d.kl.median, (kls[7] + kls[8]) / 2, 1e-12);
  EXPECT_NEAR(d.kl.p90, kls[13] + 0.5 * (kls[14] - kls[13]), 1e-12);
  EXPECT_NEAR(d.kl.max, kls[15], 1e-12);
  EXPECT_NEAR(d.dp_rms, std::sqrt(square / 16), 1e-12);
  EXPECT_DOUBLE_EQ(d.same_top, same / 16);
}

TEST(ModelComparison, LayersAreThoseOfTheStream) {
  Two two;
  two.of_other.kv_types = KvType::bf16;
  const std::span<const std::int32_t> fed = std::span(two.ids).first(19);
  ModelComparison comparison(two.of_own, two.of_other, true);
  comparison.add(two.ids, 0);
  const ModelDifference d = comparison.result();
  Probe own(*two.own.model), other(*two.other.model);
  logits_of(*two.own.model, fed, {.taps = &own});
  logits_of(*two.other.model, fed, {.taps = &other, .kv_types = KvType::bf16});
  for (std::size_t layer = 0; layer < d.resid_errors.size(); ++layer) {
    const std::string site = "blocks." + std::to_string(layer) + ".hook_resid_post";
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < own.values.at(site).data.size(); ++i) {
      const double a = own.values.at(site).data[i], b = other.values.at(site).data[i];
      difference += (a - b) * (a - b), size += b * b;
    }
    EXPECT_GT(d.resid_errors[layer], 0);
    EXPECT_NEAR(d.resid_errors[layer], std::sqrt(difference / size), 1e-12) << site;
  }
}

TEST(ModelComparison, RefusesOtherVocabulariesAndLayers) {
  Two two;
  const Checkpoint gpt2 = golden_checkpoint("gpt2");
  const GenerateContext of_gpt2 = {gpt2.model.get(), &two.pool, &default_kernels()};
  const bool same_size = gpt2.model->config().vocab_size == two.own.model->config().vocab_size;
  EXPECT_THROW(ModelComparison(two.of_own, of_gpt2, same_size), BadInput);
}

TEST(ModelComparison, Percentiles) {
  const std::vector<double> values = {0, 1, 2, 10};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 0);
  EXPECT_DOUBLE_EQ(percentile(values, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(percentile(values, 0.9), 2 + 0.7 * 8);
  EXPECT_DOUBLE_EQ(percentile(values, 1), 10);
  EXPECT_DOUBLE_EQ(percentile(std::vector<double>{3}, 0.99), 3);
}

}  // namespace
}  // namespace vitrine::test
