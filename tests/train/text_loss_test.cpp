// The losses of texts, against sentence-transformers and torch (tools/goldens/text_losses.py).
#include "train/text_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/json.h"

namespace vitrine::test {
namespace {

/// A case of the file, as the library takes it.
struct LossCase {
  TextObjective objective;
  std::vector<Batch::Example> examples;
  std::vector<double> outputs;
  std::int64_t width = 0;
  Json expected;

  TextLossResult compute(std::span<const double> values) const {
    return text_loss(objective, examples, values, width, count_of_loss(objective, examples, width));
  }
  TextLossResult compute() const { return compute(outputs); }
};

LearnedTask task_named(const std::string& name) {
  return name == "classify" ? LearnedTask::classify
         : name == "tag"    ? LearnedTask::tag
         : name == "rerank" ? LearnedTask::rerank
                            : LearnedTask::embed;
}

LossCase case_of(const Json& json) {
  LossCase result;
  result.expected = json;
  const auto names = words(TextLoss());
  const auto at = std::find(names.begin(), names.end(), json["loss"].get<std::string>());
  EXPECT_NE(at, names.end());
  result.objective.task = task_named(json["task"]);
  result.objective.loss = static_cast<TextLoss>(at - names.begin());
  result.objective.scale = json.value("scale", 20.0);
  result.objective.is_symmetric = json.value("symmetric", false);
  result.objective.dimensions = json.value("matryoshka_dims", std::vector<std::int64_t>());
  result.objective.dimension_weights = json.value("matryoshka_weights", std::vector<double>());
  if (json.contains("query_regularizer_weight")) {
    result.objective.flops = {json["document_regularizer_weight"].get<double>(),
                              json["query_regularizer_weight"].get<double>()};
  }
  result.width = json["width"];
  result.outputs = json["outputs"].get<std::vector<double>>();
  std::int64_t first = 0;
  for (const Json& example : json["examples"]) {
    const auto n = example["pieces"].get<std::int64_t>();
    result.examples.push_back({first, n, example["labels"].get<std::vector<double>>()});
    first += n;
  }
  return result;
}

std::vector<LossCase> cases() {
  std::ifstream file(std::string(VITRINE_SOURCE_DIR) + "/tests/train/text_losses.json");
  std::vector<LossCase> all;
  for (const Json& json : Json::parse(file)) all.push_back(case_of(json));
  return all;
}

TEST(TextLoss, EqualsSentenceTransformers) {
  for (const LossCase& c : cases()) {
    SCOPED_TRACE(c.expected["name"].get<std::string>());
    // The reference rounds the labels of some losses, and the outputs of three, to float32.
    const TextLoss loss = c.objective.loss;
    const bool rounds_all =
        loss == TextLoss::rank_net || loss == TextLoss::list_net || c.objective.task == LearnedTask::tag;
    const bool rounds_labels =
        loss == TextLoss::binary_cross_entropy || loss == TextLoss::margin_mse || loss == TextLoss::cosine_similarity;
    const double tolerance = rounds_all ? 2e-6 : rounds_labels ? 1e-6 : 1e-12;
    const TextLossResult found = c.compute();
    EXPECT_NEAR(found.loss, c.expected["value"].get<double>(), tolerance);
    const auto gradients = c.expected["gradients"].get<std::vector<double>>();
    ASSERT_EQ(found.gradients.size(), gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) EXPECT_NEAR(found.gradients[i], gradients[i], tolerance) << i;
  }
}

TEST(TextLoss, PartsOfASumAreTheWhole) {
  for (const LossCase& c : cases()) {
    if (!c.objective.is_sum()) continue;
    SCOPED_TRACE(c.expected["name"].get<std::string>());
    const double count = count_of_loss(c.objective, c.examples, c.width);
    const std::span all(c.examples);
    const bool is_tag = c.objective.task == LearnedTask::tag;
    std::size_t rows = is_tag ? c.examples[0].labels.size() : static_cast<std::size_t>(c.examples[0].n_pieces);
    rows *= static_cast<std::size_t>(c.width);
    const std::span outputs(c.outputs);
    const TextLossResult first = text_loss(c.objective, all.first(1), outputs.first(rows), c.width, count);
    const TextLossResult rest = text_loss(c.objective, all.subspan(1), outputs.subspan(rows), c.width, count);
    const TextLossResult whole = c.compute();
    EXPECT_NEAR(first.loss + rest.loss, whole.loss, 1e-12);
    for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
      EXPECT_NEAR(i < rows ? first.gradients[i] : rest.gradients[i - rows], whole.gradients[i], 1e-12);
    }
  }
}

TEST(TextLoss, LargeOutputsDoNotOverflow) {
  for (const LossCase& c : cases()) {
    SCOPED_TRACE(c.expected["name"].get<std::string>());
    std::vector<double> large = c.outputs;
    for (double& x : large) x *= 1e6;
    const TextLossResult found = c.compute(large);
    EXPECT_TRUE(std::isfinite(found.loss));
    for (const double g : found.gradients) EXPECT_TRUE(std::isfinite(g));
  }
}

TEST(TextLoss, AVectorOfZerosHasNoDirection) {
  const std::vector<Batch::Example> examples = {{0, 2, {0.5}}};
  const std::vector<double> outputs = {0, 0, 3, 4};
  const TextObjective objective{LearnedTask::embed, TextLoss::cosine_similarity};
  const TextLossResult found = text_loss(objective, examples, outputs, 2, 1);
  EXPECT_NEAR(found.loss, 0.25, 1e-12);
  for (const double g : found.gradients) EXPECT_TRUE(std::isfinite(g));
}

}  // namespace
}  // namespace vitrine::test
