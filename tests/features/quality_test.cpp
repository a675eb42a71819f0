// The quality of dictionaries, against plain arithmetic on the values and logits of separate runs.
#include "inspect/dictionary_quality.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "features/made_dictionary.h"
#include "features/site_names.h"
#include "features/support.h"
#include "inspect/encoder_statistics.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

constexpr std::int32_t kSkipped = 3;

struct Evaluated {
  static constexpr std::int64_t n_heads = 4;  // of the model
  Checkpoint checkpoint = golden_checkpoint("llama_mha");
  std::vector<std::int32_t> ids = {kSkipped, 9, 2, 17, 5, kSkipped, 11, 4, 8};

  DictionaryQuality quality(const Dictionary& dictionary, std::int64_t chunk, int threads) const {
    ThreadPool pool(threads);
    const Applied applied = dictionaries(dictionary, DictionaryUse::automatic);
    GenerateContext context = {checkpoint.model.get(), &pool, &default_kernels()};
    context.modifiers.dictionaries = applied;
    context.chunk = chunk;
    DictionaryEvaluation evaluation(context);
    evaluation.add(ids, 0);
    return evaluation.results().front();
  }
  static Applied dictionaries(const Dictionary& dictionary, DictionaryUse use) {
    auto skipped = std::make_shared<SkippedTokens>();
    skipped->ids = {kSkipped};
    return {{std::shared_ptr<const Dictionary>(std::shared_ptr<void>(), &dictionary), use, skipped}};
  }
};

std::vector<double> log_softmax(const std::vector<float>& logits, std::size_t row, std::size_t n) {
  const float* const own = logits.data() + row * n;
  double most = own[0], sum = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, static_cast<double>(own[i]));
  for (std::size_t i = 0; i < n; ++i) sum += std::exp(own[i] - most);
  std::vector<double> result;
  for (std::size_t i = 0; i < n; ++i) result.push_back(own[i] - most - std::log(sum));
  return result;
}

/// What the changed model's logits say at the tokens that count: the mean loss, and the mean divergence.
std::pair<double, double> losses(const Evaluated& e, const std::vector<float>& own, const std::vector<float>& changed) {
  const std::size_t n = own.size() / e.ids.size();
  double loss = 0, kl = 0, n_losses = 0, n_rows = 0;
  for (std::size_t t = 0; t < e.ids.size(); ++t) {
    if (e.ids[t] == kSkipped) continue;
    const std::vector<double> p = log_softmax(own, t, n), q = log_softmax(changed, t, n);
    for (std::size_t i = 0; i < n; ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
    ++n_rows;
    if (t + 1 == e.ids.size()) continue;
    loss -= q[static_cast<std::size_t>(e.ids[t + 1])];
    ++n_losses;
  }
  return {loss / n_losses, kl / n_rows};
}

void expect_quality(const Evaluated& e, const Dictionary& d, const std::string& zero) {
  const std::string site = name_of(d.output);
  const Model& model = *e.checkpoint.model;
  const auto plain = run(model, e.ids,
                         {.globs = {site, "*.hook_sae_error", "*.hook_sae_acts_post"},
                          .dictionaries = Evaluated::dictionaries(d, DictionaryUse::read)});
  const auto replaced = run(model, e.ids, {.dictionaries = Evaluated::dictionaries(d, DictionaryUse::replace)});
  const auto zeroed = run(model, e.ids, {.writes = {zero}});
  const std::vector<float>& acts = plain.values.at(site + ".hook_sae_acts_post");
  const std::vector<float>&all = plain.values.at(site), &errors = plain.values.at(site + ".hook_sae_error");
  const auto n = static_cast<std::size_t>(d.d_out()), width = all.size() / e.ids.size();
  const std::size_t first = static_cast<std::size_t>(d.head.value_or(0)) * n;

  std::vector<double> mean(n), active(static_cast<std::size_t>(d.d_sae()));
  double tokens = 0, l0 = 0, l1 = 0, mse = 0, cosine = 0, in = 0, out = 0, ratio = 0, dot = 0, square = 0, variance = 0;
  const auto each = [&](const auto& body) {
    for (std::size_t t = 0; t < e.ids.size(); ++t) {
      if (e.ids[t] != kSkipped) body(t);
    }
  };
  each([&](std::size_t t) {
    ++tokens;
    for (std::size_t i = 0; i < n; ++i) mean[i] += all[t * width + first + i];
  });
  each([&](std::size_t t) {
    double yy = 0, zz = 0, yz = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double y = all[t * width + first + i], z = y - errors[t * n + i], centered = y - mean[i] / tokens;
      yy += y * y, zz += z * z, yz += y * z;
      mse += (y - z) * (y - z), variance += centered * centered;
    }
    in += std::sqrt(yy), out += std::sqrt(zz), ratio += std::sqrt(zz / yy), cosine += yz / std::sqrt(yy * zz);
    dot += yz, square += zz;
    for (std::size_t i = 0; i < active.size(); ++i) {
      const float a = acts[t * active.size() + i];
      l0 += a != 0, l1 += std::abs(a), active[i] += a != 0;
    }
  });
  const auto [loss_with, kl_with] = losses(e, plain.logits, replaced.logits);
  const auto [loss_ablated, kl_ablated] = losses(e, plain.logits, zeroed.logits);
  const double loss = losses(e, plain.logits, plain.logits).first;

  for (const std::int64_t chunk : {64, 2}) {
    const DictionaryQuality q = e.quality(d, chunk, chunk == 2 ? 2 : 1);
    const auto near = [](double want) { return testing::DoubleNear(want, 1e-6 * (1 + std::abs(want))); };
    EXPECT_EQ(static_cast<double>(q.tokens), tokens);
    EXPECT_THAT(q.l0, near(l0 / tokens));
    EXPECT_THAT(q.l1, near(l1 / tokens));
    EXPECT_THAT(q.reconstruction.mse, near(mse / tokens));
    EXPECT_THAT(q.reconstruction.explained_variance, near(1 - mse / variance));
    EXPECT_THAT(q.reconstruction.cossim, near(cosine / tokens));
    EXPECT_THAT(q.reconstruction.l2_norm_in, near(in / tokens));
    EXPECT_THAT(q.reconstruction.l2_norm_out, near(out / tokens));
    EXPECT_THAT(q.reconstruction.l2_ratio, near(ratio / tokens));
    EXPECT_THAT(q.reconstruction.relative_reconstruction_bias, near(square / dot));
    EXPECT_THAT(q.preservation.loss_without, near(loss));
    EXPECT_THAT(q.preservation.loss_with, near(loss_with));
    EXPECT_THAT(q.preservation.loss_ablated, near(loss_ablated));
    EXPECT_THAT(q.preservation.kl_with, near(kl_with));
    EXPECT_THAT(q.preservation.kl_ablated, near(kl_ablated));
    EXPECT_EQ(std::vector<double>(q.n_active.begin(), q.n_active.end()), active);
    EXPECT_EQ(q.dead(), std::ranges::count(active, 0.0));
  }
  EXPECT_GT(kl_with, 1e-9);
  EXPECT_GT(std::abs(loss_ablated - loss_with), 1e-9);
}

TEST(DictionaryQuality, EqualsArithmeticOnTheValues) {
  const Evaluated e;
  const ModelConfig& config = e.checkpoint.model->config();
  Made made(config.d_model, 90);
  made.own.input = made.own.output = BlockSite{0}(Site::resid_post);
  expect_quality(e, made.own, "blocks.0.hook_resid_post[:]=0");
  made.own.selection = {.kind = FeatureSelection::Kind::abstopk, .k = 4};
  expect_quality(e, made.own, "blocks.0.hook_resid_post[:]=0");
}

/// What goes on there is what the head reads.
TEST(DictionaryQuality, AtTheLastStateOfTheStream) {
  const Evaluated e;
  const ModelConfig& config = e.checkpoint.model->config();
  const int last = static_cast<int>(config.n_layers()) - 1;
  Made made(config.d_model, 90);
  made.own.input = made.own.output = BlockSite{last}(Site::resid_post);
  expect_quality(e, made.own, fmt::format("blocks.{}.hook_resid_post[:]=0", last));
}

TEST(DictionaryQuality, OfATranscoder) {
  const Evaluated e;
  const ModelConfig& config = e.checkpoint.model->config();
  Made made(config.d_model, 90);
  made.own.input = BlockSite{1}(Site::ln2_out);
  made.own.output = *site_named(config, "blocks.1.hook_mlp_out", false);
  made.own.subtracted = {};
  made.own.skip = made.matrix(config.d_model, config.d_model);
  expect_quality(e, made.own, "blocks.1.hook_mlp_out[:]=0");
}

TEST(DictionaryQuality, OfOneHead) {
  const Evaluated e;
  const ModelConfig& config = e.checkpoint.model->config();
  const SiteId site = *site_named(config, "blocks.1.attn.hook_z", false);
  const auto z = run(*e.checkpoint.model, e.ids, {.globs = {name_of(site)}}).values.at(name_of(site));
  Made made(std::ssize(z) / std::ssize(e.ids) / e.n_heads, 40);
  made.own.input = made.own.output = site;
  made.own.head = 1;
  expect_quality(e, made.own, "blocks.1.attn.hook_z[:,1]=0");
}

TEST(DictionaryQuality, ATextOfSkippedTokensHasNone) {
  Evaluated e;
  e.ids.assign(4, kSkipped);
  Made made(e.checkpoint.model->config().d_model, 90);
  EXPECT_THROW(e.quality(made.own, 64, 1), BadInput);
}

TEST(EncoderStatistics, AreNormsAndCosinesInEveryLayout) {
  ThreadPool pool(2);
  Made made(5, 130);
  const auto element = [](const Param& m, std::int64_t r, std::int64_t c) {
    float value = 0;
    std::memcpy(&value, m.view.at(r, c), sizeof(value));
    return static_cast<double>(value);
  };
  const Param stored = made.matrix(5, 130);
  for (const bool is_transposed : {false, true}) {
    if (is_transposed) made.own.encoder.view = {stored.view.data, DType::f32, 130, 5, 1, 130};
    const EncoderStatistics statistics = encoder_statistics(made.own, pool);
    ASSERT_EQ(statistics.norms.size(), 130u);
    for (std::int64_t i = 0; i < 130; ++i) {
      double ee = 0, dd = 0, ed = 0;
      for (std::int64_t c = 0; c < 5; ++c) {
        const double e = element(made.own.encoder, i, c), w = element(made.own.decoder, i, c);
        ee += e * e, dd += w * w, ed += e * w;
      }
      EXPECT_FLOAT_EQ(statistics.norms[static_cast<std::size_t>(i)], static_cast<float>(std::sqrt(ee)));
      EXPECT_FLOAT_EQ(statistics.cosines[static_cast<std::size_t>(i)], static_cast<float>(ed / std::sqrt(ee * dd)));
    }
  }
}

}  // namespace
}  // namespace vitrine::test
