// predict: the ranks and probabilities after every prefix.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/load.h"
#include "generate/score.h"
#include "support/data.h"

namespace vitrine {
namespace {

class Predict : public testing::Test {
 protected:
  Checkpoint checkpoint_ = load_checkpoint(test::goldens() + "/gemma2");
  ThreadPool pool_{2};
  GenerateContext context_{checkpoint_.model.get(), &pool_, &default_kernels(), nullptr, KvType::f32, nullptr};
  const std::vector<std::int32_t> ids_ = {2, 7, 40, 0, 13};
};

TEST_F(Predict, RanksTheLogitsOfEveryPrefix) {
  std::vector<std::vector<TokenLogprob>> expected;
  score(context_, ids_, [&](std::int64_t, const Tensor& logits) {
    for (std::int64_t row = 0; row < logits.rows(); ++row) {
      expected.push_back(top_logprobs({logits.row(row), static_cast<std::size_t>(logits.row_size())}, 4));
    }
  });
  std::int64_t next = 0;
  predict(context_, ids_, 4, [&](std::int64_t position, const std::vector<TokenLogprob>& top) {
    ASSERT_EQ(position, next++);
    const auto& want = expected[static_cast<std::size_t>(position)];
    ASSERT_EQ(top.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(top[i].id, want[i].id);
      EXPECT_EQ(top[i].logprob, want[i].logprob);
      EXPECT_LE(top[i].logprob, top[i == 0 ? 0 : i - 1].logprob);
    }
  });
  EXPECT_EQ(next, 5);
}

TEST_F(Predict, RefusesWhatDoesNotFit) {
  const auto ignore = [](std::int64_t, const std::vector<TokenLogprob>&) {};
  EXPECT_THROW(predict(context_, std::vector<std::int32_t>(65, 1), 1, ignore), BadInput) << "a context of 64";
  EXPECT_THROW(predict(context_, std::vector<std::int32_t>{41}, 1, ignore), BadInput) << "a vocabulary of 41";
  EXPECT_THROW(predict(context_, ids_, -1, ignore), BadInput);
}

}  // namespace
}  // namespace vitrine
