// Vectors of texts: pooling, independence of the batch, padding, and models without a head.
#include "generate/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "generate/evaluate.h"
#include "generate/score.h"
#include "support/pair.h"

namespace vitrine::test {
namespace {

using Texts = std::vector<Ids>;

std::vector<std::vector<float>> vectors_of(const Model& model, const Texts& texts, const EncodeOptions& options,
                                           int threads = 1) {
  ThreadPool pool(threads);
  const GenerateContext context{&model, &pool, &default_kernels()};
  std::vector<std::vector<float>> vectors(texts.size());
  encode(context, texts, options,
         [&](std::size_t i, std::span<const float> vector) { vectors[i].assign(vector.begin(), vector.end()); });
  return vectors;
}

/// The last normed rows of a text, from a trace.
Value rows_of(const Model& model, const Ids& ids, const std::string& site) {
  Probe probe(model, {site});
  logits_of(model, ids, {.taps = &probe});
  return probe.values.at(site);
}

TEST(Encode, PoolsTheRowsOfTheStack) {
  const Checkpoint bert = golden_checkpoint("masked/bert_pretraining");
  const Ids ids = {5, 9, 12, 7};
  const Value rows = rows_of(*bert.model, ids, "blocks.2.hook_normalized_resid_post");
  const auto d = static_cast<std::size_t>(bert.model->config().d_model);
  const auto vector = [&](std::optional<PoolStep::Mode> mode) {
    return vectors_of(*bert.model, {ids}, {.mode = mode, .normalize = false})[0];
  };
  EXPECT_TRUE(
      same_bits(vector(PoolStep::Mode::cls), {rows.data.begin(), rows.data.begin() + static_cast<std::ptrdiff_t>(d)}));
  EXPECT_TRUE(
      same_bits(vector(PoolStep::Mode::last), {rows.data.end() - static_cast<std::ptrdiff_t>(d), rows.data.end()}));
  const std::vector<float> mean = vector(PoolStep::Mode::mean), max = vector(PoolStep::Mode::max);
  for (std::size_t i = 0; i < d; ++i) {
    double sum = 0;
    float most = rows.data[i];
    for (std::size_t t = 0; t < ids.size(); ++t) {
      sum += static_cast<double>(rows.data[t * d + i]);
      most = std::max(most, rows.data[t * d + i]);
    }
    EXPECT_NEAR(mean[i], sum / 4, 1e-6);
    EXPECT_EQ(max[i], most);
  }
  const Value pooled = rows_of(*bert.model, ids, "pooler.hook_pooler_out");
  EXPECT_TRUE(same_bits(vector(std::nullopt), pooled.data));
  double squares = 0;
  const std::vector<float> unit = vectors_of(*bert.model, {ids}, {})[0];
  for (const float x : unit) squares += static_cast<double>(x) * static_cast<double>(x);
  EXPECT_NEAR(squares, 1, 1e-6);
}

TEST(Encode, ATextHasTheSameBitsInAnyBatch) {
  for (const std::string golden : {"masked/bert", "pairs/t5", "gemma2"}) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    const Texts texts = {{5, 6, 7}, {8}, {9, 10, 11, 12, 13, 14}, {5, 6, 7}};
    const auto together = vectors_of(*checkpoint.model, texts, {}, 2);
    const auto few = vectors_of(*checkpoint.model, texts, {.max_rows = 5});
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto alone = vectors_of(*checkpoint.model, {texts[i]}, {})[0];
      EXPECT_TRUE(same_bits(together[i], alone)) << golden;
      EXPECT_TRUE(same_bits(few[i], alone)) << golden;
    }
  }
}

TEST(Encode, RefusesWhatHasNoVector) {
  const Checkpoint bert = golden_checkpoint("masked/bert");
  EXPECT_THROW(vectors_of(*bert.model, {{}}, {}), BadInput);
  EXPECT_THROW(vectors_of(*bert.model, {{1 << 20}}, {}), BadInput);
  EXPECT_THROW(vectors_of(*bert.model, {Ids(500, 5)}, {}), BadInput);
  EXPECT_THROW(vectors_of(*bert.model, {{5}}, {.mode = std::nullopt}), Unsupported);
}

/// Padding that no token attends to changes no bit of the others.
TEST(Padding, ChangesNoBitOfTheText) {
  const auto logits = [](const Model& model, const Tokens& tokens, std::int64_t n_padding) {
    ThreadPool pool(2);
    const GenerateContext context{&model, &pool, &default_kernels()};
    std::vector<float> all;
    score(
        context, tokens,
        [&](std::int64_t, const Tensor& rows) { all.insert(all.end(), rows.data, rows.data + rows.count()); }, 0,
        n_padding);
    return all;
  };
  const Checkpoint bert = golden_checkpoint("masked/bert"), t5 = golden_checkpoint("pairs/t5");
  const Ids ids = {5, 9, 12}, padded = {5, 9, 12, 0, 0}, target = {0, 4, 8};
  const std::vector<float> own = logits(*bert.model, ids, 0);
  std::vector<float> more = logits(*bert.model, padded, 2);
  ASSERT_EQ(more.size(), own.size() / 3 * 5);
  more.resize(own.size());
  EXPECT_TRUE(same_bits(own, more));
  EXPECT_TRUE(same_bits(logits(*t5.model, {target, {}, ids}, 0), logits(*t5.model, {target, {}, padded}, 2)));
}

/// The loss of targets is that of their logits.
TEST(EvaluatePairs, SumsTheLossesOfTheTargets) {
  const Checkpoint bart = golden_checkpoint("pairs/bart");
  ThreadPool pool(2);
  const GenerateContext context{bart.model.get(), &pool, &default_kernels()};
  const std::vector<TextPair> pairs = {{{5, 6, 7}, {9, 8, 2}}, {{4}, {11, 2}}};
  const PairEvaluation found = evaluate_pairs(context, pairs, 2);
  EXPECT_EQ(found.tokens, 5);
  EXPECT_EQ(found.pairs, 2);
  double nats = 0;
  for (const TextPair& pair : pairs) {
    Ids inputs = {2};
    inputs.insert(inputs.end(), pair.target.begin(), pair.target.end() - 1);
    const std::vector<float> logits = logits_of(*bart.model, Pair{pair.source, inputs});
    const std::size_t v = logits.size() / inputs.size();
    for (std::size_t row = 0; row < inputs.size(); ++row) {
      nats -= logprob({&logits[row * v], v}, pair.target[row]);
    }
  }
  EXPECT_NEAR(found.nats, nats, 1e-5 * nats);
  EXPECT_THROW(evaluate_pairs(context, std::vector<TextPair>{{{5}, {}}}, 2), BadInput);
  EXPECT_THROW(evaluate_pairs(context, std::vector<TextPair>{{{}, {5}}}, 2), BadInput);
}

}  // namespace
}  // namespace vitrine::test
