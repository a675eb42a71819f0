// Why a text has a label: parts that add up to the outputs of every head of tests/goldens/heads, and integrated
// gradients as in float64 (tools/goldens integrated_gradients).
#include "inspect/integrated_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "generate/classify.h"
#include "support/backward.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

struct LabelRunner {
  explicit LabelRunner(const std::string& name, const std::string& folder = "heads/")
      : checkpoint(golden_checkpoint(folder + name)) {
    context = {checkpoint.model.get(), &pool, &default_kernels()};
    context.compute = Compute::f32;
  }
  const TaskHead& head() const { return checkpoint.model->config().task.value(); }

  Checkpoint checkpoint;
  ThreadPool pool{2};
  GenerateContext context;
};

std::vector<std::string> task_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(goldens() + "/heads")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with("_words")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

const std::vector<std::int32_t> kIds = {7, 9, 27, 8, 44, 31, 2, 12, 38, 5};

std::vector<float> outputs_of(const LabelRunner& run, const std::vector<std::int32_t>& ids) {
  std::vector<float> outputs;
  const std::vector<std::vector<std::int32_t>> texts = {ids};
  read_outputs(run.context, {texts}, 64,
               [&](std::size_t, const Tensor& all) { outputs.assign(all.data, all.data + all.count()); });
  return outputs;
}

class LabelAttributionOf : public testing::TestWithParam<std::string> {};

TEST_P(LabelAttributionOf, ThePartsAddUpToTheOutput) {
  const LabelRunner run(GetParam());
  const std::vector<float> outputs = outputs_of(run, kIds);
  const std::size_t n_labels = run.head().labels.size();
  const bool is_of_tokens = run.head().pool == TaskHead::Pool::none;
  const std::int64_t position = is_of_tokens ? 3 : -1;
  const auto output = [&](std::size_t label) {
    return static_cast<double>(outputs[(is_of_tokens ? std::size_t{3} * n_labels : 0) + label]);
  };
  for (std::size_t label = 0; label < n_labels; ++label) {
    double of_parts = 0;
    for (const bool by_head : {false, true}) {
      const LabelAttribution found = attribute_label(run.context, kIds, {label, {}, position}, by_head);
      double sum = 0;
      std::set<std::string> names;
      for (const AttributionTerm& term : found.terms) {
        sum += term.value;
        EXPECT_TRUE(names.insert(term.name).second) << term.name;
      }
      EXPECT_EQ(found.sum, sum);
      EXPECT_EQ(found.output, output(label));
      EXPECT_NEAR(found.sum, found.output, 1e-5 * std::max(std::abs(found.output), 0.1));
      if (by_head) {
        EXPECT_NEAR(sum, of_parts, 1e-5);
        EXPECT_TRUE(names.contains("blocks.1.attn.head.2"));
      }
      of_parts = sum;
      EXPECT_TRUE(names.contains("embed"));
    }
  }
  if (n_labels < 2) return;
  const LabelAttribution difference = attribute_label(run.context, kIds, {1, 0, position}, true);
  EXPECT_NEAR(difference.sum, output(1) - output(0), 1e-5);
}

TEST_P(LabelAttributionOf, GradientsAddUpToTheDifference) {
  const LabelRunner run(GetParam());
  const std::int64_t position = run.head().pool == TaskHead::Pool::none ? 3 : -1;
  const TokenAttribution found = integrate_gradients(run.context, kIds, {0, {}, position}, {0, 64, {}});
  double sum = 0;
  for (const double value : found.tokens) sum += value;
  const double difference = found.output - found.baseline;
  EXPECT_GT(std::abs(difference), 1e-3);
  const double bound = GetParam() == "electra_replaced" ? 0.03 : 0.01;  // the kinks of its ReLU between two points
  EXPECT_NEAR(sum, difference, bound * std::abs(difference) + 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Every, LabelAttributionOf, testing::ValuesIn(task_models()),
                         [](const auto& one) { return one.param; });

TEST(IntegratedGradients, AreThoseOfFloat64) {
  const Json cases = Json::parse(MappedFile::open(goldens() + "/integrated_gradients.json")->text());
  ASSERT_EQ(cases.size(), 9U);
  for (const Json& one : cases) {
    const LabelRunner run(one["model"].get<std::string>(), one.contains("words") ? "sentences/" : "heads/");
    LabelChoice choice;
    if (one.contains("words")) choice = {one["words"][0], one["words"][1].get<std::size_t>(), -1, true};
    const std::vector<std::int32_t> ids = one["ids"];
    const PathOptions path{one["baseline"], 64, one["keeps"].get<std::vector<bool>>()};
    const TokenAttribution found = integrate_gradients(run.context, ids, choice, path);
    const std::vector<double> expected = one["tokens"];
    ASSERT_EQ(found.tokens.size(), expected.size());
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found.tokens[i], expected[i], 1e-5 * largest) << one["model"] << " " << i;
      if (path.keeps[i]) {
        EXPECT_EQ(found.tokens[i], 0);
      }
    }
    EXPECT_NEAR(found.output, one["output"].get<double>(), 1e-5);
    EXPECT_NEAR(found.baseline, one["baseline_output"].get<double>(), 1e-5);
  }
}

TEST(IntegratedGradients, DoNotDependOnThePasses) {
  // 1,024 rows in a pass hold 48 points of this text.
  const LabelRunner run("bert_classes");
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 21; ++i) ids.push_back(5 + 7 * i % 40);
  const TokenAttribution found = integrate_gradients(run.context, ids, {1, {}, -1}, {0, 64, {}});
  const TokenAttribution coarse = integrate_gradients(run.context, ids, {1, {}, -1}, {0, 40, {}});
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_NEAR(found.tokens[i], coarse.tokens[i], 1e-5);
}

TEST(NextWordAttribution, ThePartsAddUpToTheDifferenceOfLogits) {
  const LabelRunner run("judge", "sentences/");
  const std::vector<std::int32_t> ids = {2, 18, 19, 5, 7, 8, 3};
  const std::vector<float> all = logits_of(*run.checkpoint.model, ids, {.compute = Compute::f32});
  const std::span<const float> logits = std::span(all).last(32);
  const double difference = static_cast<double>(logits[30]) - static_cast<double>(logits[31]);
  for (const bool by_head : {false, true}) {
    const LabelAttribution found = attribute_label(run.context, ids, {30, 31, -1, true}, by_head);
    EXPECT_EQ(found.output, difference);
    EXPECT_NEAR(found.sum, difference, 1e-5 * std::abs(difference));
    const bool has_head = std::any_of(found.terms.begin(), found.terms.end(),
                                      [](const auto& term) { return term.name == "blocks.1.attn.head.2"; });
    EXPECT_EQ(has_head, by_head);
  }
  const LabelAttribution yes = attribute_label(run.context, ids, {30, {}, -1, true}, true);
  EXPECT_NEAR(yes.sum, static_cast<double>(logits[30]), 1e-5 * std::abs(yes.sum));
  EXPECT_THROW(attribute_label(run.context, ids, {32, {}, -1, true}, true), BadInput);
  EXPECT_THROW(integrate_gradients(run.context, ids, {30, 32, -1, true}, {}), BadInput);
}

TEST(LabelAttributionErrors, OtherModelsAreRefused) {
  Checkpoint bert = golden_checkpoint("masked/bert");
  ThreadPool pool(1);
  GenerateContext context{bert.model.get(), &pool, &default_kernels()};
  EXPECT_THROW(attribute_label(context, kIds, {}, true), Unsupported);
  EXPECT_THROW(integrate_gradients(context, kIds, {}, {}), Unsupported);
  const LabelRunner head("qwen3_reward");
  EXPECT_THROW(attribute_label(head.context, kIds, {5, {}, -1, true}, true), Unsupported) << "no logits of words";
  EXPECT_THROW(integrate_gradients(head.context, kIds, {5, {}, -1, true}, {}), Unsupported);
  const LabelRunner run("bert_classes");
  EXPECT_THROW(integrate_gradients(run.context, kIds, {}, {1000, 64, {}}), BadInput);
}

}  // namespace
}  // namespace vitrine::test
