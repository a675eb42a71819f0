// The library's interface: sequences that share a pass, and gradients of logits from outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/temp_folder.h"
#include "checkpoint/init.h"
#include "support/data.h"
#include "support/run.h"
#include "vitrine/vitrine.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;
using ByName = std::map<std::string, NamedValue>;

/// Batches multiply as float32.
LanguageModel golden(const std::string& name) {
  return LanguageModel::open(goldens() + "/" + name, {.threads = 2, .compute = Compute::f32});
}

/// A tap that keeps values.
SiteTap tap_into(ByName& seen) {
  return [&seen](const std::string& name, std::span<const std::int64_t> shape, std::span<const float> value,
                 std::span<float>) {
    seen[name] = {name, {shape.begin(), shape.end()}, {value.begin(), value.end()}};
    return false;
  };
}

SiteFunction function_into(ByName& seen) {
  return [&seen](const std::string& name, std::span<float> values, std::span<const std::int64_t> shape) {
    seen[name] = {name, {shape.begin(), shape.end()}, {values.begin(), values.end()}};
  };
}

class Batches : public testing::TestWithParam<std::string> {
 protected:
  Batches() {
    Ids all = golden_ids(GetParam());
    const std::size_t n = std::min<std::size_t>(7, all.size());
    rows_[0] = {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)};
    rows_[1] = rows_[0];
    std::reverse(rows_[1].begin(), rows_[1].end());
    ids_ = rows_[0];
    ids_.insert(ids_.end(), rows_[1].begin(), rows_[1].end());
  }

  const LanguageModel model_ = golden(GetParam());
  Ids rows_[2], ids_;
};

/// Part `i` of two of a value.
std::vector<float> half(const NamedValue& value, std::size_t i) {
  const auto n = static_cast<std::ptrdiff_t>(value.values.size() / 2), first = static_cast<std::ptrdiff_t>(i) * n;
  return {value.values.begin() + first, value.values.begin() + first + n};
}

TEST_P(Batches, HaveTheBitsOfEachSequence) {
  ByName batch;
  std::vector<float> logits(ids_.size() * static_cast<std::size_t>(model_.vocab_size()));
  model_.run(ids_, 2, {.watch = {.tap = tap_into(batch)}, .logits = logits});
  for (std::size_t i = 0; i < 2; ++i) {
    std::size_t compared = 0;
    for (const SiteValue& alone : model_.trace(rows_[i])) {
      if (alone.name.find("experts.") != alone.name.npos || alone.name == "hook_loss") continue;
      const NamedValue& both = batch.at(alone.name);
      EXPECT_TRUE(same_bits(half(both, i), alone.values)) << alone.name;
      const bool is_map = alone.shape.size() == 3 && both.shape.size() == 4;
      EXPECT_EQ(is_map, alone.name.ends_with("attn_scores") || alone.name.ends_with("pattern") ||
                            alone.name.ends_with("scores_raw"))
          << alone.name;
      EXPECT_EQ(both.shape[0], is_map ? 2 : 2 * alone.shape[0]) << alone.name;
      ++compared;
    }
    EXPECT_GT(compared, 30U);
    EXPECT_TRUE(same_bits(half({"", {}, logits}, i), model_.logits(rows_[i])));
  }
}

/// softmax − target, over T − 1: the gradients of the mean next-token loss.
std::vector<float> gradients_of_loss(const std::vector<float>& logits, const Ids& ids) {
  const std::size_t n = logits.size() / ids.size();
  std::vector<float> gradients(logits.size());
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(logits[t * n + i]));
    for (std::size_t i = 0; i < n; ++i) {
      const double p = std::exp(static_cast<double>(logits[t * n + i])) / sum;
      const double target = static_cast<std::int32_t>(i) == ids[t + 1] ? 1 : 0;
      gradients[t * n + i] = static_cast<float>((p - target) / static_cast<double>(ids.size() - 1));
    }
  }
  return gradients;
}

TEST_P(Batches, GradientsOfLogitsFromOutsideAreThoseOfTheLoss) {
  std::vector<float> gradients;
  for (const Ids& row : rows_) {
    const std::vector<float> own = gradients_of_loss(model_.logits(row), row);
    gradients.insert(gradients.end(), own.begin(), own.end());
  }
  ByName batch;
  model_.run(ids_, 2, {.logit_gradients = gradients, .gradient_sites = {"*"}, .on_gradient = function_into(batch)});
  for (std::size_t i = 0; i < 2; ++i) {
    std::size_t compared = 0;
    for (const SiteValue& alone : model_.trace(rows_[i], {.gradients = true})) {
      if (!alone.name.ends_with("_grad") || alone.name.find("experts.") != alone.name.npos) continue;
      const std::string name = alone.name.substr(0, alone.name.size() - 5);
      if (name == "hook_loss") continue;
      const auto both = half(batch.at(name), i);
      float most = 0, worst = 0;
      for (std::size_t k = 0; k < both.size(); ++k) {
        most = std::max(most, std::abs(alone.values[k]));
        worst = std::max(worst, std::abs(alone.values[k] - both[k]));
      }
      EXPECT_LE(worst, 2e-5f * most + 1e-7f) << name;
      ++compared;
    }
    EXPECT_GT(compared, 25U);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Batches, testing::Values("gpt2", "gemma2", "mistral", "qwen2_moe", "olmo2"),
                         [](const auto& param_info) { return param_info.param; });

TEST(BatchRun, TheCallerKnowsTheDerivativeOfAReplacement) {
  const LanguageModel model = golden("llama_mha");
  Ids ids = golden_ids("llama_mha");
  ids.resize(5);
  const std::vector<float> gradients(ids.size() * static_cast<std::size_t>(model.vocab_size()), 0.25f);
  const std::string site = "blocks.1.attn.hook_pattern", before = "blocks.1.attn.hook_attn_scores";
  const auto run = [&](bool doubles, float factor) {
    ByName seen;
    BatchOptions options{.logit_gradients = gradients, .gradient_sites = {site, before}};
    if (doubles) {
      options.watch = {.sites = {site}, .tap = [](const auto&, auto, std::span<const float> value, auto replacement) {
                         std::transform(value.begin(), value.end(), replacement.begin(), [](float x) { return 2 * x; });
                         return true;
                       }};
    }
    options.on_gradient = [&](const std::string& name, std::span<float> values, std::span<const std::int64_t> shape) {
      if (name == site) {
        for (float& value : values) value *= factor;
      }
      function_into(seen)(name, values, shape);
    };
    model.run(ids, 1, options);
    return seen;
  };
  // The gradient after a replacement by twice the value, times 2, flows on.
  const ByName plain = run(false, 1), doubled = run(true, 2), stopped = run(true, 0);
  EXPECT_FALSE(same_bits(plain.at(before).values, doubled.at(before).values));
  for (const float value : stopped.at(before).values) EXPECT_EQ(value, 0);
  ByName scaled = run(false, 3);
  for (std::size_t i = 0; i < scaled.at(before).values.size(); ++i) {
    EXPECT_NEAR(scaled.at(before).values[i], 3 * plain.at(before).values[i], 1e-5f);
  }
}

TEST(BatchRun, BeginsAtALaterLayer) {
  const LanguageModel model = golden("gpt2");
  Ids ids = golden_ids("gpt2");
  ids.resize(6);
  const auto trace =
      model.trace(ids, {.sites = {"blocks.1.hook_resid_pre", "blocks.1.hook_resid_post", "hook_logits"}});
  for (const std::int64_t start : {1, 2}) {
    std::vector<float> logits(trace[2].values.size());
    BatchOptions options{.start = start, .stream = trace[static_cast<std::size_t>(start - 1)].values};
    options.logits = logits;
    model.run(ids, 1, options);
    EXPECT_TRUE(same_bits(logits, trace[2].values));
    // The gradient of the stream is that of its site.
    const std::vector<float> gradients(logits.size(), 0.5f);
    std::vector<float> of_stream;
    ByName seen;
    const std::string site = start == 1 ? "blocks.1.hook_resid_pre" : "blocks.1.hook_resid_post";
    model.run(ids, 1, {.logit_gradients = gradients, .gradient_sites = {site}, .on_gradient = function_into(seen)});
    options.logits = {};
    options.logit_gradients = gradients;
    options.on_stream_gradient = [&](std::span<const float> g) { of_stream.assign(g.begin(), g.end()); };
    model.run(ids, 1, options);
    EXPECT_TRUE(same_bits(of_stream, seen.at(site).values));
  }
  EXPECT_THROW(model.run(ids, 1, {.start = 3, .stream = trace[0].values}), BadInput);
  EXPECT_THROW(model.run(ids, 1, {.start = 1, .stream = trace[2].values}), BadInput);
}

TEST(BatchRun, RefusesWhatIsNoBatch) {
  const LanguageModel model = golden("gpt2");
  const Ids ids = {1, 2, 3};
  EXPECT_THROW(model.run(ids, 2, {}), BadInput);
  EXPECT_THROW(model.run(ids, 0, {}), BadInput);
  EXPECT_THROW(model.run({}, 1, {}), BadInput);
  EXPECT_THROW(model.run(Ids{-1}, 1, {}), BadInput);
  const std::vector<float> few(5);
  EXPECT_THROW(model.run(ids, 1, {.logit_gradients = few}), BadInput);
  ByName seen;
  EXPECT_THROW(model.run(ids, 1, {.watch = {.sites = {"nope"}, .tap = tap_into(seen)}}), BadInput);
}

TEST(BatchRun, ParametersAreAsTheForwardUsesThem) {
  const LanguageModel model = golden("gemma2");
  const auto trace = model.trace(Ids{4, 9}, {.sites = {"hook_embed", "ln_final.*"}});
  const NamedValue embed = model.parameter("embed.weight"), norm = model.parameter("ln_final.weight");
  const std::size_t d = norm.values.size();
  for (std::size_t i = 0; i < d; ++i) EXPECT_FLOAT_EQ(embed.values[4 * d + i], trace[0].values[i]);
  for (std::size_t i = 0; i < 2 * d; ++i) {
    EXPECT_NEAR(norm.values[i % d] * trace[2].values[i], trace[3].values[i], 1e-5f);
  }
  EXPECT_EQ(model.parameter("unembed.weight").shape, embed.shape);
  EXPECT_THROW(model.parameter("blocks.0.attn.wx.weight"), BadInput);
}

/// Two embeddings with their scales, of which the head reads one, and no final norm.
TEST(BatchRun, ParametersAreThoseOfTheirStackAndNorm) {
  const Json config = {{"model_type", "vitrine"},
                       {"d_model", 8},
                       {"n_layers", 1},
                       {"n_heads", 2},
                       {"vocab_size", 10},
                       {"max_seq_len", 8},
                       {"d_ff", 8},
                       {"norm_place", "after_residual"},
                       {"norm_weight_offset", 1},
                       {"embedding_scale", 3},
                       {"tied", true},
                       {"shared_embedding", false},
                       {"decoder_start_token_id", 1},
                       {"encoder", {{"embedding_scale", 5}}}};
  ThreadPool pool(1);
  const TempFolder folder;
  init_checkpoint(config, "test", folder / "m", DType::f32, 1, pool);
  const LanguageModel model = LanguageModel::open(folder / "m");
  const auto trace = model.trace(Ids{4, 9}, {.sites = {"*coder.hook_embed"}, .target = {1, 7}});
  ASSERT_EQ(trace.size(), 2U);
  const NamedValue encoder = model.parameter("encoder.embed.weight"), decoder = model.parameter("decoder.embed.weight"),
                   unembed = model.parameter("unembed.weight");
  EXPECT_EQ(unembed.shape, decoder.shape);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(encoder.values[9 * 8 + i], trace[0].values[8 + i]);
    EXPECT_EQ(decoder.values[7 * 8 + i], trace[1].values[8 + i]);
    EXPECT_EQ(3 * unembed.values[i], decoder.values[i]);
  }
  for (const char* norm : {"encoder.0.ln1.weight", "decoder.0.ln3.weight"}) {
    EXPECT_EQ(model.parameter(norm).values, std::vector<float>(8, 1.0f)) << norm;
  }
}

}  // namespace
}  // namespace vitrine::test
