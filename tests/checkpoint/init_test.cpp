// init: the logits of the checkpoints that it writes, compared with those of transformers; the distribution of the
// weights; errors.
#include "checkpoint/init.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/writer.h"
#include "checkpoint/safetensors.h"
#include "model/count.h"
#include "model/initialize.h"
#include "support/figures.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class InitOf : public testing::TestWithParam<std::string> {
 protected:
  const Json all_ = reference_figures();
  const Json figures_ = all_["models"][GetParam()];
  ScratchFolder folder_;
};

TEST_P(InitOf, TransformersComputesTheSameLogits) {
  const Checkpoint checkpoint = tiny_checkpoint(GetParam(), figures_, folder_ / "m");
  const std::vector<float> logits =
      logits_of(*checkpoint.model, all_["ids"].get<std::vector<std::int32_t>>(), {.compute = Compute::f32});
  const auto vocab_size = static_cast<std::size_t>(checkpoint.model->config().vocab_size);
  double largest = 0, worst = 0;
  for (std::size_t t = 0; t < figures_["logits"].size(); ++t) {
    for (std::size_t i = 0; i < figures_["logits"][t].size(); ++i) {
      const double expected = figures_["logits"][t][i].get<double>();
      largest = std::max(largest, std::abs(expected));
      worst = std::max(worst, std::abs(expected - static_cast<double>(logits[t * vocab_size + 25 * i])));
    }
  }
  EXPECT_GT(largest, 0.05);
  EXPECT_LE(worst, 2e-6 * (1 + largest));
  EXPECT_EQ(count_params(checkpoint.model->config()), figures_["params"].get<std::int64_t>());
}

TEST_P(InitOf, BytesDependOnTheSeedNotOnThreads) {
  for (const int threads : {1, 3}) tiny_checkpoint(GetParam(), figures_, folder_ / std::to_string(threads), threads);
  const std::string weights = bytes_of(folder_ / "1/model.safetensors");
  EXPECT_EQ(weights, bytes_of(folder_ / "3/model.safetensors"));
  ThreadPool pool(1);
  const DType dtype = figures_["dtype"] == "f32" ? DType::f32 : DType::bf16;
  init_checkpoint(tiny_config(GetParam(), figures_), GetParam(), folder_ / "8", dtype, 8, pool);
  EXPECT_NE(weights, bytes_of(folder_ / "8/model.safetensors"));
}

/// Reading returns the values that were written, because both directions use the same table.
TEST_P(InitOf, EveryElementIsAtItsPlaceInTheTable) {
  const Checkpoint checkpoint = tiny_checkpoint(GetParam(), figures_, folder_ / "m");
  const ModelConfig& config = checkpoint.model->config();
  std::uint64_t index = 0;
  for_each_param(config, checkpoint.model->params(),
                 [&](const Param& param, const std::string& name, const Shape& shape) {
                   std::vector<float> expected(static_cast<std::size_t>(shape.count()));
                   draw_initial(init_rule(config, norms_of(config), name, shape), 7, index++, 0, expected);
                   for (std::int64_t i = 0; i < shape.count(); ++i) {
                     const std::int64_t cols = shape[shape.rank() - 1];
                     const float value = expected[static_cast<std::size_t>(i)];
                     const std::byte* const stored = param.view.at(i / cols, i % cols);
                     if (param.view.dtype == DType::f32) {
                       ASSERT_EQ(std::memcmp(stored, &value, 4), 0) << name << " " << i;
                     } else {
                       const std::uint16_t rounded = bf16_from_float(value);
                       ASSERT_EQ(std::memcmp(stored, &rounded, 2), 0) << name << " " << i;
                     }
                   }
                 });
}

INSTANTIATE_TEST_SUITE_P(Each, InitOf, testing::ValuesIn(tiny_presets()), [](const auto& param_info) {
  std::string name = param_info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.' || c == '/'; }, '_');
  return name;
});

TEST(Initialize, HasTheMomentsAndBoundsOfItsRule) {
  for (const double cut : {0.0, 3.0, 1.0}) {
    std::vector<float> values(200'000);
    draw_initial({0.5, 2.0, cut}, 3, 5, 0, values);
    double mean = 0, variance = 0, furthest = 0;
    for (const float v : values) mean += static_cast<double>(v) / static_cast<double>(values.size());
    for (const float v : values) {
      const double d = static_cast<double>(v) - mean;
      variance += d * d / static_cast<double>(values.size());
      furthest = std::max(furthest, std::abs(static_cast<double>(v) - 0.5));
    }
    // A standard normal truncated at ±c has the variance 1 − 2 c φ(c) / (2 Φ(c) − 1).
    const double phi = std::exp(-cut * cut / 2) / std::sqrt(2 * M_PI);
    const double expected = cut > 0 ? 1 - 2 * cut * phi / std::erf(cut / std::sqrt(2)) : 1;
    EXPECT_NEAR(mean, 0.5, 0.02) << cut;
    EXPECT_NEAR(variance / 4, expected, 0.01) << cut;
    const double bound = cut > 0 ? 2 * cut : 14;
    EXPECT_LE(furthest, bound);
    EXPECT_GT(furthest, cut > 0 ? 0.9 * bound : 8);
  }
}

TEST(Initialize, AnElementDoesNotDependOnTheFirstOneDrawn) {
  std::vector<float> whole(103);
  draw_initial({0, 1, 3}, 1, 2, 1000, whole);
  for (std::int64_t first = 0; first < 103; ++first) {
    std::vector<float> one(1);
    draw_initial({0, 1, 3}, 1, 2, 1000 + first, one);
    EXPECT_EQ(one[0], whole[static_cast<std::size_t>(first)]);
  }
}

InitRule rule_of(const Json& json, const std::string& name, const InitOptions& options = {}) {
  const ModelConfig config = read_model_config(family_of(json, "test"), json, "test");
  InitRule found{-1, -1, -1};
  for_each_shape(config, [&](const std::string& n, const Shape& shape) {
    if (n == name) found = init_rule(config, norms_of(config), n, shape, options);
  });
  return found;
}

TEST(Initialize, FollowsTheConfig) {
  const auto rule = [](const char* preset, const char* name, const InitOptions& options = {}) {
    return rule_of(preset_or_config(preset), name, options);
  };
  EXPECT_FLOAT_EQ(static_cast<float>(rule("gemma-2-2b", "embed.weight").std), 1.0F / 48);
  EXPECT_EQ(rule("gemma-2-2b", "blocks.3.ln1.weight").mean, 0) << "the file stores w - 1";
  EXPECT_EQ(rule("llama-2-7b", "blocks.3.ln1.weight").mean, 1);
  EXPECT_EQ(rule("llama-2-7b", "embed.weight").std, 1);
  EXPECT_DOUBLE_EQ(rule("llama-2-7b", "blocks.0.mlp.w_up.weight").std, std::sqrt(2.0 / (4096 + 11008)));
  EXPECT_EQ(rule("llama-2-7b", "blocks.0.mlp.w_up.weight").cut, 3);
  EXPECT_EQ(rule("gpt2", "blocks.0.attn.wq.weight").std, 0.02);
  EXPECT_DOUBLE_EQ(rule("gpt2", "blocks.0.attn.wo.weight").std, 0.02 / std::sqrt(24.0));
  EXPECT_EQ(rule("gpt2", "blocks.0.attn.wo.bias").std, 0);
  EXPECT_EQ(rule("gpt2", "blocks.0.attn.wo.bias").mean, 0);

  const InitOptions normal{InitOptions::Scheme::normal, 0.01, {}}, glorot{InitOptions::Scheme::glorot, 0.01, {}};
  EXPECT_DOUBLE_EQ(rule("llama-2-7b", "blocks.0.mlp.w_down.weight", normal).std, 0.01 / 8);
  EXPECT_EQ(rule("llama-2-7b", "blocks.0.mlp.w_up.weight", normal).std, 0.01);
  EXPECT_EQ(rule("llama-2-7b", "embed.weight", normal).std, 0.01);
  EXPECT_EQ(rule("llama-2-7b", "embed.weight", normal).cut, 0);
  EXPECT_FLOAT_EQ(static_cast<float>(rule("gemma-2-2b", "embed.weight", normal).std), 1.0F / 48);
  EXPECT_DOUBLE_EQ(rule("gpt2", "blocks.0.attn.wo.weight", glorot).std, std::sqrt(1.0 / 768));
  EXPECT_EQ(rule("gpt2", "pos_embed.weight", glorot).std, 0.02);
  EXPECT_EQ(rule("gpt2", "embed.weight", {InitOptions::Scheme::glorot, 0.01, 0.5}).std, 0.5);
}

TEST(Initialize, FollowsEachNorm) {
  const Json config = {
      {"model_type", "vitrine"}, {"d_model", 8},          {"n_layers", 2},     {"n_heads", 2},
      {"vocab_size", 10},        {"max_seq_len", 8},      {"d_ff", 8},         {"norm_place", "after_residual"},
      {"norm_weight_offset", 1}, {"norm", "layer"},       {"norm_bias", true}, {"qk_norm", "head"},
      {"embedding_norm", true},  {"head_transform", true}};
  for (const char* name : {"ln_embed", "blocks.0.ln1", "blocks.1.ln2", "blocks.0.attn.q_norm", "head.ln"}) {
    EXPECT_EQ(rule_of(config, std::string(name) + ".weight").mean, 0) << name;
    EXPECT_EQ(rule_of(config, std::string(name) + ".bias").mean, 0) << name;
  }
}

TEST(Initialize, FollowsEachStack) {
  const Json config = {{"model_type", "vitrine"},
                       {"d_model", 8},
                       {"n_layers", 2},
                       {"n_heads", 2},
                       {"vocab_size", 10},
                       {"max_seq_len", 8},
                       {"d_ff", 8},
                       {"tied", true},
                       {"shared_embedding", false},
                       {"encoder", {{"n_layers", 8}, {"norm_weight_offset", 1}}}};
  const InitOptions normal{InitOptions::Scheme::normal, 0.02, {}};
  for (const std::string name : {"attn.wo.weight", "mlp.w_down.weight"}) {
    EXPECT_DOUBLE_EQ(rule_of(config, "encoder.0." + name, normal).std, 0.02 / 4) << name;
    EXPECT_DOUBLE_EQ(rule_of(config, "decoder.0." + name, normal).std, 0.02 / 2) << name;
  }
  EXPECT_EQ(rule_of(config, "encoder.0.ln1.weight").mean, 0);
  EXPECT_EQ(rule_of(config, "decoder.0.ln1.weight").mean, 1);
  EXPECT_EQ(rule_of(config, "encoder.embed.weight").std, 1) << "the head is tied to the decoder's embedding";
  EXPECT_EQ(rule_of(config, "decoder.embed.weight").std, 0.02);
}

TEST(Presets, HaveThePublishedNumberOfParameters) {
  for (const Preset& preset : all_presets()) {
    const Json json = preset_or_config(preset.name);
    const ModelConfig config = read_model_config(family_of(json, "test"), json, "test");
    EXPECT_EQ(count_params(config), preset.n_params) << preset.name;
    EXPECT_FALSE(preset.source.empty());
  }
}

TEST(Presets, EachFamilyHasOne) {
  std::set<std::string_view> types;
  for (const Preset& preset : all_presets()) {
    types.insert(family_of(preset_or_config(preset.name), "test").model_type);
  }
  // No published config is known.
  const std::set<std::string_view> without = {"granitemoeshared"};
  for (const Family& family : all_families()) {
    EXPECT_NE(types.contains(family.model_type), without.contains(family.model_type)) << family.model_type;
  }
}

class InitRefuses : public testing::Test {
 protected:
  std::string refusal(const Json& config, const std::string& out) {
    try {
      init_checkpoint(config, "test", out, DType::f32, 1, pool_);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  ScratchFolder folder_;
  ThreadPool pool_{1};
  Json config_ = tiny_config("gpt2", reference_figures()["models"]["gpt2"]);
};

TEST_F(InitRefuses, FoldersThatAreNotEmpty) {
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THAT(refusal(config_, folder_ / ""), testing::HasSubstr("expected a new or an empty folder"));
  EXPECT_THAT(refusal(config_, folder_ / "file"), testing::HasSubstr("expected a new or an empty folder"));
  EXPECT_THAT(refusal(config_, folder_ / "file/x"), testing::HasSubstr("file/x"));
  EXPECT_THAT(refusal(config_, ""), testing::HasSubstr("empty text"));
  EXPECT_EQ(refusal(config_, folder_ / "a/b/c"), "") << "parent folders are created";
}

TEST_F(InitRefuses, ModelsLargerThanTheDisk) {
  Json config = preset_or_config("gpt3-175b");
  config["n_layer"] = 9000;
  EXPECT_THAT(refusal(config, folder_ / "x"), testing::HasSubstr("GB left"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x"));
}

TEST_F(InitRefuses, ConfigsThatContradictThemselves) {
  Json config = config_;
  config["n_head"] = 5;
  EXPECT_NE(refusal(config, folder_ / "x"), "");
  config = config_;
  config["n_embed"] = 48;
  EXPECT_THAT(refusal(config, folder_ / "x"), testing::HasSubstr("unknown key n_embed"));
  EXPECT_NE(refusal(Json(3), folder_ / "x"), "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x"));
}

TEST_F(InitRefuses, AnInterruptionLeavesNothing) {
  const auto stop = [](std::int64_t done, std::int64_t total) {
    if (done > total / 2) throw Interrupted();
  };
  EXPECT_THROW(init_checkpoint(config_, "test", folder_ / "x", DType::f32, 1, pool_, stop), Interrupted);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x"));
}

TEST(Presets, UnknownNamesComeWithTheNearest) {
  const auto refusal = [](const std::string& name) {
    try {
      preset_or_config(name);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("gemma-2b-"), testing::HasSubstr("did you mean gemma-2b?"));
  EXPECT_THAT(refusal("GPT2"), testing::HasSubstr("did you mean gpt2?"));
  EXPECT_THAT(refusal("zzzzzzzz"), testing::Not(testing::HasSubstr("did you mean")));
  EXPECT_THAT(refusal(goldens() + "/gpt2/config.jsom"), testing::HasSubstr("config.json?"));
}

TEST(SetKeys, AcceptVitrinesAndTheConfigsNames) {
  Json config = preset_or_config("gemma-2b");
  set_config_keys(config, {"d_model=64", "num_hidden_layers=3", "rope_scaling=null", "hidden_activation=silu"}, "test");
  EXPECT_EQ(config["hidden_size"], 64);
  EXPECT_EQ(config["num_hidden_layers"], 3);
  EXPECT_TRUE(config["rope_scaling"].is_null());
  EXPECT_EQ(config["hidden_activation"], "silu");
  EXPECT_THROW(set_config_keys(config, {"d_model"}, "test"), BadInput);
  EXPECT_THROW(set_config_keys(config, {"=3"}, "test"), BadInput);
}

}  // namespace
}  // namespace vitrine::test
