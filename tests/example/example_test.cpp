// The worked example shows the values that the model computes, and every line of arithmetic evaluates to the value
// shown.
#include "example/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "example/interval.h"
#include "inspect/layout.h"
#include "model/count.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

ExampleOptions options_of(std::vector<std::int32_t> ids, std::int32_t target) {
  ExampleOptions o;
  o.ids = std::move(ids);
  o.target = target;
  o.optimizer.kind = OptimizerConfig::Kind::sgd;
  o.optimizer.momentum = o.optimizer.weight_decay = 0;
  o.optimizer.max_norm.reset();
  o.lr = 0.5;
  return o;
}

ExampleOptions document_options() {
  ExampleOptions o = options_of({0, 1, 2, 3, 0}, 5);
  o.max_differences = 30;
  return o;
}

const ExampleSection& section(const WorkedExample& e, const std::string& name) {
  for (const ExampleSection& s : e.sections) {
    if (s.name == name) return s;
  }
  throw std::runtime_error("no section " + name);
}

std::vector<float> row(const ExampleSection& s, std::int64_t r) {
  const auto n = static_cast<std::int64_t>(s.values.size()) / s.shape[0];
  return {s.values.begin() + r * n, s.values.begin() + (r + 1) * n};
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(values[i]), static_cast<double>(expected[i]), tolerance) << i;
  }
}

/// Checks that each arithmetic gives the value shown, with exact numbers and with the rounded numbers in its text.
int check_cells(const WorkedExample& e) {
  int cells = 0;
  for (const ExampleSection& s : e.sections) {
    float largest = 0;
    for (const float x : s.values) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
    for (const SpelledCell& cell : s.cells) {
      const auto value = static_cast<double>(cell.value);
      EXPECT_NEAR(cell.result, value, 2e-6 * (1 + static_cast<double>(largest)))
          << cell.name << " = " << cell.arithmetic;
      EXPECT_TRUE(IntervalReader(cell.arithmetic).read().contains(value, 1e-6 * (1 + std::abs(value))))
          << cell.name << " = " << cell.arithmetic << " = " << cell.value;
      ++cells;
    }
  }
  return cells;
}

class DocumentExample : public testing::Test {
 protected:
  const ExampleModel model_ = document_model(4);
  const WorkedExample example_ = work_example(model_, document_options());
};

TEST_F(DocumentExample, HasEverySiteInForwardOrderAndEveryGradient) {
  const ModelConfig& config = model_.trainable.model().config();
  std::vector<std::string> sites, forward, backward, update;
  for (int layer = 0; layer < 2; ++layer) {
    for (const SiteLayout& site : site_layout(config, layer)) {
      const bool is_first = site.site.layer < 0 && info(site.site.site).place == SitePlace::embedding;
      if (site.site.layer == layer || (site.site.layer < 0 && is_first == (layer == 0))) {
        sites.push_back(name_of(site.site));
      }
    }
  }
  for (const ExampleSection& s : example_.sections) {
    if (s.part == ExamplePart::forward && s.name != "softmax") forward.push_back(s.name);
    if (s.part == ExamplePart::backward) backward.push_back(s.name);
    if (s.part == ExamplePart::update) update.push_back(s.name);
  }
  EXPECT_EQ(forward, sites);
  std::vector<std::string> back;
  for (const std::string& name : sites) {
    if (name != "hook_tokens") back.insert(back.begin(), "grad:" + name);
  }
  std::vector<std::string> at_sites;
  for (const std::string& name : backward) {
    if (name.find("hook_") != std::string::npos) at_sites.push_back(name);
  }
  EXPECT_THAT(at_sites, testing::UnorderedElementsAreArray(back));
  EXPECT_EQ(at_sites.front(), "grad:hook_loss");
  EXPECT_EQ(backward.back(), "grad:embed.weight");
  for (const TrainParam& p : model_.trainable.params()) {
    const bool learns = p.name != "pos_embed.weight";
    EXPECT_EQ(std::count(backward.begin(), backward.end(), "grad:" + p.name), learns ? 1 : 0) << p.name;
    EXPECT_EQ(std::count(update.begin(), update.end(), "new:" + p.name), learns ? 1 : 0) << p.name;
  }
}

TEST_F(DocumentExample, KeepsTheDocumentsNumbersAndMarksThem) {
  const ExampleSection& embed = section(example_, "embed.weight");
  expect_near(row(embed, 0), {.1f, .2f, 0, .1f}, 0);
  expect_near(row(embed, 1), {.3f, .1f, .2f, 0}, 0);
  expect_near(row(embed, 5), {.1f, .4f, .2f, .3f}, 0);
  for (std::size_t id = 0; id < 8; ++id) {
    const bool kept = id == 0 || id == 1 || id == 5;
    EXPECT_EQ(embed.origins.at(id), kept ? "from the document" : "seed 4, in tenths");
  }
  EXPECT_EQ(section(example_, "blocks.0.attn.wq.weight").origins.at(1), "from the document");
  EXPECT_EQ(section(example_, "blocks.0.attn.wq.weight").origins.at(2), "seed 4, in tenths");
  EXPECT_EQ(section(example_, "blocks.1.mlp.w_up.weight").origins, std::vector<std::string>{"seed 4, in tenths"});
  // Values that depend on the document's numbers only.
  expect_near(row(section(example_, "blocks.0.ln1.hook_normalized"), 0), {0, 1.413f, -1.413f, 0}, .001);
  const std::vector<float> q = row(section(example_, "blocks.0.attn.hook_q"), 0);
  expect_near({q[0], q[1]}, {-.141f, .141f}, .001);
}

TEST_F(DocumentExample, EveryArithmeticGivesItsValue) {
  EXPECT_GT(check_cells(example_), 100);
  // Every kind of section has an arithmetic, in the forward and the backward.
  for (const char* name :
       {"hook_embed", "blocks.0.hook_resid_pre", "blocks.0.ln1.hook_scale", "blocks.0.ln1.hook_normalized",
        "blocks.0.ln1.hook_out", "blocks.0.attn.hook_q", "blocks.1.attn.hook_attn_scores_raw", "softmax"}) {
    const bool is_plain = std::string(name) == "hook_embed";
    if (std::string(name) == "blocks.1.attn.hook_attn_scores_raw") continue;
    EXPECT_EQ(section(example_, name).cells.size(), is_plain ? 0U : 1U) << name;
  }
  for (const char* name : {"blocks.0.attn.hook_scores_raw",
                           "blocks.0.attn.hook_pattern",
                           "blocks.0.attn.hook_z",
                           "blocks.0.attn.hook_out",
                           "blocks.0.hook_resid_mid",
                           "blocks.0.mlp.hook_pre",
                           "blocks.0.mlp.hook_post",
                           "blocks.0.mlp.hook_out",
                           "blocks.1.hook_resid_post",
                           "unembed.hook_out",
                           "hook_loss",
                           "grad:hook_logits",
                           "grad:unembed.hook_in",
                           "grad:blocks.1.hook_resid_post",
                           "grad:blocks.0.hook_resid_pre",
                           "grad:blocks.0.attn.hook_pattern",
                           "grad:blocks.0.attn.hook_attn_scores",
                           "grad:blocks.0.attn.hook_q",
                           "grad:blocks.0.attn.hook_k",
                           "grad:blocks.0.attn.hook_v",
                           "grad:blocks.0.attn.hook_z",
                           "grad:blocks.0.ln1.hook_out",
                           "grad:blocks.0.attn.wq.weight",
                           "grad:blocks.0.mlp.w_down.weight",
                           "grad:ln_final.weight",
                           "grad:blocks.0.ln1.bias",
                           "input:embed.weight",
                           "head:embed.weight",
                           "grad:embed.weight",
                           "new:embed.weight",
                           "new:blocks.0.attn.wq.weight"}) {
    EXPECT_EQ(section(example_, name).cells.size(), 1U) << name;
  }
}

TEST_F(DocumentExample, BothUsesOfTheEmbeddingSumToItsGradient) {
  const ExampleSection &input = section(example_, "input:embed.weight"), &head = section(example_, "head:embed.weight");
  const ExampleSection& sum = section(example_, "grad:embed.weight");
  for (std::size_t i = 0; i < sum.values.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(input.values[i] + head.values[i]), static_cast<double>(sum.values[i]), 1e-6);
  }
  // Every path from the embedding passes through a norm that subtracts the mean.
  const ExampleSection& back = section(example_, "grad:hook_embed");
  for (std::int64_t t = 0; t < 5; ++t) {
    double total = 0, size = 0;
    for (const float g : row(back, t)) {
      total += static_cast<double>(g);
      size += std::abs(static_cast<double>(g));
    }
    EXPECT_NEAR(total, 0, 1e-5) << "position " << t;
    EXPECT_GT(size, 1e-4) << "position " << t;
  }
}

TEST_F(DocumentExample, TheUpdateIsAStepDownTheGradient) {
  for (const ExampleSection& s : example_.sections) {
    if (s.part != ExamplePart::update) continue;
    const std::string name = s.name.substr(4);
    const ExampleSection &before = section(example_, name), &gradient = section(example_, "grad:" + name);
    for (std::size_t i = 0; i < s.values.size(); ++i) {
      EXPECT_FLOAT_EQ(s.values[i], before.values[i] - 0.5f * gradient.values[i]) << s.name << ", element " << i;
    }
  }
  EXPECT_LT(example_.loss_after, example_.loss);
  EXPECT_NEAR(example_.loss, -std::log(example_.probability), 1e-6);
  EXPECT_NEAR(example_.loss_after, -std::log(example_.probability_after), 1e-6);
  EXPECT_GT(example_.probability_after, example_.probability);
  // Positions are fixed.
  const ExampleSection& positions = section(example_, "pos_embed.weight");
  EXPECT_TRUE(std::equal(positions.values.begin(), positions.values.end(), model_.trainable.params()[1].value));
}

/// Checks that every slope equals its gradient within the error of the fit, and of the rounded losses. Returns the
/// number with an error below 2e-6.
std::int64_t check_differences(const WorkedExample& e, double rounding = 1e-6) {
  std::int64_t n_exact = 0;
  for (const ExampleSection& s : e.sections) {
    for (std::size_t i = 0; i < s.differences.size(); ++i) {
      const Difference& d = s.differences[i];
      if (!d.taken || !d.smooth) continue;
      EXPECT_NEAR(d.slope, static_cast<double>(s.values[i]), rounding + 6 * d.error) << s.name << ", " << i;
      if (d.error < 2e-6) ++n_exact;
    }
  }
  return n_exact;
}

TEST(Example, EveryGradientIsComparedWithAFiniteDifference) {
  ExampleOptions o = document_options();
  o.max_differences = 600;
  const WorkedExample e = work_example(document_model(4), o);
  EXPECT_EQ(e.differences.taken, 328);
  EXPECT_LE(e.differences.not_smooth, 6);
  EXPECT_FALSE(e.differences.where.empty());
  EXPECT_GT(check_differences(e), 200);
}

TEST(Example, ADifferenceEqualsTheGradientAndRestoresTheWeight) {
  const ExampleModel model = document_model(4);
  const std::vector<std::int32_t> ids = {0, 1, 2, 3, 0};
  const TrainParam& embed = model.trainable.params().front();
  Differences differences(model.trainable.model(), ids, 5, embed.value);
  const float before = embed.value[20];
  const Difference by_mat = differences.by(embed.value + 20);
  EXPECT_EQ(embed.value[20], before);
  const WorkedExample example = work_example(model, document_options());
  const auto gradient = static_cast<double>(section(example, "grad:embed.weight").values[20]);
  EXPECT_TRUE(by_mat.smooth);
  EXPECT_NEAR(by_mat.slope, gradient, 3e-6);
  EXPECT_GT(std::abs(by_mat.slope), 1e-2);
  EXPECT_LT(by_mat.error, 3e-6);
}

TEST(Example, AdamwTakesItsFirstStep) {
  ExampleOptions o = document_options();
  o.optimizer.kind = OptimizerConfig::Kind::adamw;
  o.optimizer.weight_decay = 0.1;
  o.lr = 0.01;
  const ExampleModel model = document_model(4);
  const WorkedExample e = work_example(model, o);
  EXPECT_GT(check_cells(e), 100);
  EXPECT_LT(e.loss_after, e.loss);
  EXPECT_THAT(e.optimizer, testing::HasSubstr("AdamW, rate 0.01"));
}

TEST(Example, RequestedCellsReplaceTheDefaultOnes) {
  ExampleOptions o = document_options();
  o.cells = {"blocks.0.attn.hook_q[0,1]", "blocks.0.attn.hook_q[1,1,0]", "grad:embed.weight[5,0]"};
  const WorkedExample e = work_example(document_model(4), o);
  const ExampleSection& q = section(e, "blocks.0.attn.hook_q");
  ASSERT_EQ(q.cells.size(), 2U);
  EXPECT_EQ(q.cells[0].name, "blocks.0.attn.hook_q[0,0,1]");
  EXPECT_EQ(q.cells[1].name, "blocks.0.attn.hook_q[1,1,0]");
  EXPECT_NEAR(static_cast<double>(q.cells[0].value), .141, .001);
  ASSERT_EQ(section(e, "grad:embed.weight").cells.size(), 1U);
  EXPECT_EQ(section(e, "grad:embed.weight").cells[0].value, section(e, "grad:embed.weight").values[20]);
  check_cells(e);
}

void expect_refusal(const ExampleOptions& o, const std::string& expected) {
  const ExampleModel model = document_model(4);
  try {
    work_example(model, o);
    ADD_FAILURE() << "expected an error that contains " << expected;
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(expected));
  }
}

TEST(Example, UnknownIdsAndCellsAreRefused) {
  const auto with = [](auto&& change) {
    ExampleOptions o = document_options();
    change(o);
    return o;
  };
  expect_refusal(with([](auto& o) { o.ids = {0, 8}; }), "ids from 0 to 7, got 8");
  expect_refusal(with([](auto& o) { o.ids = {-1}; }), "got -1");
  expect_refusal(with([](auto& o) { o.ids = {}; }), "at least 1 id");
  expect_refusal(with([](auto& o) { o.ids = {0, 1, 2, 3, 0, 1}; }), "at most 5 ids");
  expect_refusal(with([](auto& o) { o.target = 8; }), "[--target] expected an id from 0 to 7, got 8");
  expect_refusal(with([](auto& o) { o.cells = {"blocks.0.attn.hook_p[0,1]"}; }), "did you mean blocks.0.attn.hook_");
  expect_refusal(with([](auto& o) { o.cells = {"blocks.0.attn.hook_q[5,1]"}; }), "has shape [5, 2, 2]");
  expect_refusal(with([](auto& o) { o.cells = {"blocks.0.attn.hook_q[0,-1]"}; }), "has shape [5, 2, 2]");
  expect_refusal(with([](auto& o) { o.cells = {"blocks.0.attn.hook_q[0]"}; }), "has shape [5, 2, 2]");
  expect_refusal(with([](auto& o) { o.cells = {"blocks.0.attn.hook_q"}; }), "expected SITE[row,column]");
  expect_refusal(with([](auto& o) { o.cells = {"blocks.0.attn.hook_q[]"}; }), "whole numbers");
  expect_refusal(with([](auto& o) { o.cells = {"blocks.0.attn.hook_q[0,1"}; }), "expected SITE[row,column]");
  expect_refusal(with([](auto& o) { o.cells = {"blocks.0.attn.hook_q[0,1,]"}; }), "whole numbers");
  expect_refusal(with([](auto& o) { o.cells = {"blocks.0.attn.hook_attn_scores[0,0,4]"}; }), "no arithmetic to show");
}

TEST(Example, AModelTooLargeToReadIsRefused) {
  ModelConfig config = document_model(4).trainable.model().config();
  config.vocab_size = 5000;
  EXPECT_THROW(random_model(config, "config.json", 1), BadInput);
}

TEST(Example, ANormIsSpelledWithItsOwnSettings) {
  const Json json = {{"model_type", "vitrine"},
                     {"d_model", 8},
                     {"n_layers", 2},
                     {"n_heads", 2},
                     {"d_ff", 16},
                     {"vocab_size", 10},
                     {"max_seq_len", 8},
                     {"norm_place", "after_residual"},
                     {"norm_eps", 0.25},
                     {"norm_weight_offset", 1}};
  const ModelConfig config = read_model_config(family_of(json, "own"), json, "own");
  ASSERT_FALSE(config.final_norm.has_value());
  const WorkedExample e = work_example(random_model(config, "own", 1), options_of({1, 2, 3}, 4));
  EXPECT_GT(check_cells(e), 50);
  const ExampleSection& scale = section(e, "blocks.0.ln1.hook_scale");
  ASSERT_EQ(scale.cells.size(), 1U);
  EXPECT_THAT(scale.cells.front().arithmetic, testing::EndsWith(" + 0.250)"));
  EXPECT_THAT(section(e, "blocks.0.ln1.hook_out").formula, testing::HasSubstr("(1 + g_{i})"));
}

/// A tiny model of every family, with random weights.
class ExampleOfEveryFamily : public testing::TestWithParam<std::string> {};

TEST_P(ExampleOfEveryFamily, ItsGradientsAreSlopesAndItsArithmeticHolds) {
  const std::string path = goldens() + "/" + GetParam() + "/config.json";
  const Json json = read_json_file(path);
  const ModelConfig config = read_model_config(family_of(json, path), json, path);
  if (config.head.width || count_params(config) > kMaxParams || GetParam() == "codegen") {
    EXPECT_THROW(random_model(config, path, 1), Error);
    GTEST_SKIP() << "it is refused";
  }
  const ExampleModel model = random_model(config, path, 1);
  ExampleOptions o = options_of({1, 2, 3, 1}, 4);
  const std::vector<CacheLayerConfig> kept = cache_layers(config);
  const bool has_states = std::ranges::any_of(kept, [](const auto& layer) { return !layer.states.empty(); });
  const bool is_steep = GetParam() == "youtu" || GetParam() == "gemma4_moe";
  o.lr = has_states ? 0.0002 : is_steep ? 0.01 : 0.05;
  o.max_differences = 60;
  const WorkedExample e = work_example(model, o);
  EXPECT_GT(check_cells(e), 50);
  EXPECT_GT(e.differences.taken, 20);
  EXPECT_LE(e.differences.not_smooth * 8, e.differences.taken);
  EXPECT_GT(check_differences(e, has_states ? 2e-5 : 1e-6) * 4, e.differences.taken);
  EXPECT_LT(e.loss_after, e.loss);
  RecordProperty("largest", std::to_string(e.differences.largest));
  for (const std::string& text : {example_text(e), example_markdown(e), example_html(e)}) {
    EXPECT_FALSE(std::regex_search(text, std::regex("nan(?!ochat)")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExampleOfEveryFamily, testing::ValuesIn(golden_cases()),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace vitrine::test
