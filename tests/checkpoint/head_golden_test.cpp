// Compares models with heads for classes, tags, answers, choices and words with transformers in float64 (tools/goldens
// heads; ../shared/data/texts where present): outputs, gradients of every parameter, and the same bits in any batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/hostile_folder.h"
#include "generate/classify.h"
#include "inspect/objective.h"
#include "support/backward.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

constexpr double kTolerance = 2e-6;  // relative to 1 + the largest output

GenerateContext context_of(const Model& model, ThreadPool& pool, const Kernels& kernels) {
  GenerateContext context;
  context.model = &model;
  context.pool = &pool;
  context.kernels = &kernels;
  context.compute = Compute::f32;
  return context;
}

/// The outputs of texts in one call; the logits of all rows if the model predicts words.
std::vector<std::vector<float>> outputs_of(const Model& model, const std::vector<Ids>& texts, int threads = 1,
                                           const Kernels& kernels = default_kernels()) {
  std::vector<std::vector<float>> all(texts.size());
  if (!model.config().task) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      all[i] = logits_of(model, texts[i], {.kernels = &kernels, .threads = threads, .compute = Compute::f32});
    }
    return all;
  }
  ThreadPool pool(threads);
  read_outputs(context_of(model, pool, kernels), {texts}, 64, [&](std::size_t i, const Tensor& outputs) {
    all[i].assign(outputs.data, outputs.data + outputs.count());
  });
  return all;
}

std::vector<std::string> head_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(goldens() + "/heads")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class HeadGolden : public testing::TestWithParam<std::string> {
 protected:
  /// The gradients of all parameters by copies of the last text, whose outputs have the factors of tools/goldens.
  Values gradients_of_last_text(int threads, bool recompute, int copies = 1) const {
    const Ids text = texts().back();
    const auto n = static_cast<std::int64_t>(text.size());
    const std::vector<float> outputs = golden_.at("output." + std::to_string(texts().size() - 1)).data;
    std::vector<float> factors;
    Ids ids;
    std::vector<Segment> segments;
    for (int copy = 0; copy < copies; ++copy) {
      for (std::size_t i = 0; i < outputs.size(); ++i) factors.push_back(static_cast<float>(std::cos(i)));
      ids.insert(ids.end(), text.begin(), text.end());
      segments.push_back({.first_row = copy * n, .length = n});
    }
    Gradients gradients;
    for_each_param(model_.config(), model_.params(),
                   [&](const Param& param, const std::string&, const Shape&) { gradients.add(param); });
    ThreadPool pool(threads);
    Arena arena;
    Tape tape(gradients);
    LossRequest loss;
    (model_.config().task ? loss.output_gradients : loss.logit_gradients) = factors;
    LossResult found;
    Pass pass{{pool, default_kernels(), arena}, segments};
    pass.compute = Compute::f32;
    pass.training.tape = &tape;
    pass.training.loss = &loss;
    pass.training.result = &found;
    pass.training.recompute = recompute;
    model_.forward_backward(pass, ids);
    Values values;
    for_each_param(model_.config(), model_.params(), [&](const Param& param, const std::string& own, const Shape&) {
      const Tensor gradient = gradients.of(param);
      values[own] = {gradient.shape, {gradient.data, gradient.data + gradient.count()}};
    });
    return values;
  }
  std::string name() const { return "heads/" + GetParam(); }
  std::vector<Ids> texts() const {
    std::vector<Ids> all;
    for (std::size_t i = 0; golden_.contains("ids." + std::to_string(i)); ++i) {
      const Value& ids = golden_.at("ids." + std::to_string(i));
      all.emplace_back(ids.data.begin(), ids.data.end());
    }
    return all;
  }

  const Values golden_ = tensors_of(goldens() + "/heads/" + GetParam() + "/golden.safetensors");
  const Checkpoint checkpoint_ = golden_checkpoint(name());
  const Model& model_ = *checkpoint_.model;
  const TempFolder folder_;
};

void expect_near(const std::vector<float>& ours, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(ours.size(), expected.size()) << what;
  const double bound = kTolerance * (1 + largest(expected));
  for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], expected[i], bound) << what << ", element " << i;
}

TEST_P(HeadGolden, OutputsEqualTheReference) {
  const std::vector<std::vector<float>> outputs = outputs_of(model_, texts());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    expect_near(outputs[i], golden_.at("output." + std::to_string(i)).data, "text " + std::to_string(i));
  }
}

TEST_P(HeadGolden, ATextHasTheSameBitsInAnyBatchAndOnEveryInstructionSet) {
  const Ids text = texts().back();
  const std::vector<float> alone = outputs_of(model_, {text}).front();
  const Ids other = some_ids(model_, 30, 3), third = some_ids(model_, 5, 4);
  for (const Isa isa : available_isas()) {
    const Kernels& kernels = kernels_for(isa);
    for (const int threads : {1, 3}) {
      const auto batch = outputs_of(model_, {other, text, third, text}, threads, kernels);
      EXPECT_TRUE(same_bits(batch[1], alone)) << name_of(isa) << ", " << threads << " threads";
      EXPECT_TRUE(same_bits(batch[3], alone)) << name_of(isa) << ", " << threads << " threads";
    }
  }
}

TEST_P(HeadGolden, GradientsEqualPyTorch) {
  const Values reference = params_of(*golden_gradient_checkpoint(name(), folder_ / "gradients").model);
  for (const bool recompute : {false, true}) {
    const Distance d =
        distance(gradients_of_last_text(2, recompute), reference, 1e-5, 3e-7);  // those of biases of keys are 0
    EXPECT_LE(d.worst, 1) << d.name;
  }
}

/// Several times, because what threads do at the same time differs.
TEST_P(HeadGolden, GradientsHaveTheSameBitsOnAnyThreads) {
  constexpr int kCopies = 32;  // enough for every thread to have some at the same time
  const Values alone = gradients_of_last_text(1, false, kCopies);
  for (int run = 0; run < 10; ++run) {
    for (const auto& [param, gradient] : gradients_of_last_text(4, false, kCopies)) {
      ASSERT_TRUE(same_bits(gradient.data, alone.at(param).data)) << param << ", run " << run;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HeadGolden, testing::ValuesIn(head_cases()), [](const auto& of) { return of.param; });

/// The examples of other families and sizes.
TEST(Heads, EqualTheExamples) {
  const std::string folder = outside_data("texts");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no texts";
  std::size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const Checkpoint checkpoint = load_checkpoint(entry.path().string());
    const Json expected = parse_json(MappedFile::open(entry.path().string() + "/expected.json")->text(), name);
    for (const Json& text : expected["texts"]) {
      const auto ids = text["ids"].get<Ids>();
      std::vector<float> outputs = outputs_of(*checkpoint.model, {ids}).front();
      std::vector<float> wanted;
      const std::function<void(const Json&)> add = [&](const Json& value) {
        if (!value.is_array()) return wanted.push_back(value.get<float>());
        for (const Json& part : value) add(part);
      };
      add(text["output"]);
      if (!checkpoint.model->config().task) outputs.erase(outputs.begin(), outputs.end() - std::ssize(wanted));
      expect_near(outputs, wanted, name);
    }
    ++n;
  }
  EXPECT_GE(n, 12u);
}

/// A base model has no use for the heads that a file of another class has, as in the reference.
TEST(Heads, ABaseModelLeavesOutTheHeadsOfItsFile) {
  const HostileFolder folder("masked/bert");
  folder.edit_json([](Json& config) { config["architectures"] = {"BertModel"}; });
  const Checkpoint base = load_checkpoint(folder.path());
  EXPECT_FALSE(base.model->config().has_head);
  std::vector<std::string> left_out;
  for (const UnreadTensors& tensors : base.unread) left_out.push_back(tensors.what);
  EXPECT_THAT(left_out, testing::Contains("cls.predictions.transform.dense"));
  EXPECT_THAT(left_out, testing::Each(testing::StartsWith("cls.predictions")));
}

TEST(Heads, AConvolutionOfAnotherFormIsRefused) {
  const auto refusal = [](const char* key, const Json& value) -> std::string {
    const HostileFolder folder("heads/deberta_v2_convolution");
    folder.edit_json([&](Json& config) { config[key] = value; });
    try {
      load_checkpoint(folder.path());
    } catch (const std::exception& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal("conv_groups", 2), testing::HasSubstr("conv_groups: expected 1"));
  EXPECT_THAT(refusal("conv_kernel_size", 4), testing::HasSubstr("conv_kernel_size: expected an odd number"));
  EXPECT_THAT(refusal("conv_kernel_size", 5), testing::HasSubstr("deberta.encoder.conv.conv.weight"));
  EXPECT_THAT(refusal("conv_kernel_size", 0), testing::HasSubstr("deberta.encoder.conv"));
  EXPECT_THAT(refusal("conv_act", "hardshrink"), testing::HasSubstr("conv_act"));
}

}  // namespace
}  // namespace vitrine::test
