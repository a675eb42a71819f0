// eval: the loss, compared with PyTorch's on the same windows, and which tokens count.
#include "generate/evaluate.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "generate/sampler.h"
#include "generate/score.h"
#include "support/figures.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

class EvaluateOn : public testing::TestWithParam<std::string> {};

TEST_P(EvaluateOn, EqualsPyTorchOnTheSameWindows) {
  const Json figures = reference_figures()["models"][GetParam()];
  ScratchFolder folder;
  const Checkpoint checkpoint = tiny_checkpoint(GetParam(), figures, folder / "m");
  const Json& eval = figures["eval"];
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    GenerateContext context{checkpoint.model.get(), &pool, &default_kernels(), nullptr, KvType::f32, nullptr};
    context.compute = Compute::f32;
    const Evaluation result = evaluate(context, eval["text"].get<std::vector<std::int32_t>>(),
                                       {eval["window"], eval["stride"], checkpoint.bos_id});
    EXPECT_NEAR(result.loss(), eval["loss"].get<double>(), 1e-6);
    EXPECT_EQ(result.tokens, eval["tokens"].get<std::int64_t>());
  }
}

INSTANTIATE_TEST_SUITE_P(Each, EvaluateOn, testing::ValuesIn(tiny_presets()), [](const auto& param_info) {
  std::string name = param_info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.' || c == '/'; }, '_');
  return name;
});

TEST(EvaluateStories, EqualsPyTorchOnTheSameText) {
  const std::string folder = outside_data("models/stories260K");
  const Json figures = reference_figures()["stories260K"];
  const std::string text_path = outside_data(figures["text"]);
  if (folder.empty() || text_path.empty()) GTEST_SKIP() << "needs VITRINE_DATA";
  std::string text(figures["bytes"].get<std::size_t>(), '\0');
  std::ifstream(text_path, std::ios::binary).read(text.data(), static_cast<std::streamsize>(text.size()));
  const Checkpoint checkpoint = load_checkpoint(folder + "/stories260K.bin");
  const auto tokenizer = load_tokenizer(folder + "/tok512.model");
  const std::vector<std::int32_t> ids = tokenizer->encode(text, SpecialTokens::none);
  ThreadPool pool(2);
  const GenerateContext context{checkpoint.model.get(), &pool,       &default_kernels(),
                                tokenizer.get(),        KvType::f32, nullptr};
  ASSERT_EQ(figures["evals"].size(), 2U);
  for (const Json& eval : figures["evals"]) {
    const Evaluation result = evaluate(context, ids, {eval["window"], eval["stride"], checkpoint.bos_id});
    EXPECT_NEAR(result.loss(), eval["loss"].get<double>(), 1e-5);
    EXPECT_EQ(result.tokens, eval["tokens"].get<std::int64_t>());
  }
}

class Evaluate : public testing::Test {
 protected:
  Evaluation run(std::int64_t n, const EvalConfig& config) {
    return evaluate(context_, std::span(ids_).first(static_cast<std::size_t>(n)), config);
  }
  /// −log p of ids[end − 1] after ids[begin … end − 2].
  double nats(std::vector<std::int32_t> ids) {
    const std::int32_t target = ids.back();
    ids.pop_back();
    double result = 0;
    score(
        context_, ids,
        [&](std::int64_t, const Tensor& logits) {
          result = -logprob({logits.data, static_cast<std::size_t>(logits.row_size())}, target);
        },
        static_cast<std::int64_t>(ids.size()) - 1);
    return result;
  }

  Checkpoint checkpoint_ = golden_checkpoint("gemma2");
  ThreadPool pool_{1};
  GenerateContext context_{checkpoint_.model.get(), &pool_, &default_kernels(), nullptr, KvType::f32, nullptr};
  std::vector<std::int32_t> ids_ = some_ids(*checkpoint_.model, 300);
};

TEST_F(Evaluate, CountsEachTokenOnceInTheFirstWindowThatHasIt) {
  const auto id = [&](int i) { return ids_[static_cast<std::size_t>(i)]; };
  // [B 0 1] [B 2 3] [B 4]
  const Evaluation with_bos = run(5, {3, 0, 7});
  EXPECT_EQ(with_bos.tokens, 5);
  EXPECT_EQ(with_bos.windows, 3);
  EXPECT_NEAR(
      with_bos.nats,
      nats({7, id(0)}) + nats({7, id(0), id(1)}) + nats({7, id(2)}) + nats({7, id(2), id(3)}) + nats({7, id(4)}), 1e-9);
  // [0 1 2] [3 4]: the first token of a window has no context
  const Evaluation without = run(5, {3, 0, {}});
  EXPECT_EQ(without.tokens, 3);
  EXPECT_NEAR(without.nats, nats({id(0), id(1)}) + nats({id(0), id(1), id(2)}) + nats({id(3), id(4)}), 1e-9);
  // stride 1 without BOS: [0 1 2] [1 2 3] [2 3 4]
  const Evaluation strided = run(5, {3, 1, {}});
  EXPECT_EQ(strided.tokens, 4);
  EXPECT_EQ(strided.windows, 3);
  EXPECT_NEAR(
      strided.nats,
      nats({id(0), id(1)}) + nats({id(0), id(1), id(2)}) + nats({id(1), id(2), id(3)}) + nats({id(2), id(3), id(4)}),
      1e-9);
  // stride 1 with BOS: [B 0 1] [B 1 2] [B 2 3] [B 3 4]
  const Evaluation both = run(5, {3, 1, 7});
  EXPECT_EQ(both.tokens, 5);
  EXPECT_EQ(both.windows, 4);
}

TEST_F(Evaluate, StridesBeyondTheWindowLeaveNothingOut) {
  const Evaluation same = run(50, {8, 8, 7});
  EXPECT_EQ(same.stride, 7);
  EXPECT_EQ(same.tokens, 50);
  EXPECT_EQ(same.nats, run(50, {8, 0, 7}).nats);
  EXPECT_EQ(run(50, {8, 100, {}}).stride, 8);
}

TEST_F(Evaluate, TakesTextsBeyondTheContext) {
  const Evaluation result = run(300, {0, 0, 7});
  EXPECT_EQ(result.window, 64);
  EXPECT_EQ(result.tokens, 300);
  EXPECT_EQ(result.windows, 5);
}

TEST_F(Evaluate, RefusesWhatCannotBeCounted) {
  EXPECT_THROW(run(0, {0, 0, 7}), BadInput);
  EXPECT_THROW(run(1, {0, 0, {}}), BadInput) << "one token without context";
  EXPECT_EQ(run(1, {0, 0, 7}).tokens, 1);
  EXPECT_THROW(run(5, {1, 0, 7}), BadInput);
  EXPECT_THROW(run(5, {65, 0, 7}), BadInput) << "a context of 64";
}

}  // namespace
}  // namespace vitrine::test
