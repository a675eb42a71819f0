// Rounds of several models on one thread: fair by API key, and with the tokens that each request has alone.
#include "serve/round_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/loaded_golden.h"
#include "serve/request_fields.h"

namespace vitrine::test {
namespace {

using Claim = RoundTurns::Claim;

/// Rounds of models, and clients with work at them.
class Turns : public testing::Test {
 protected:
  /// The number of rounds that each model has of `n`, of the same time each.
  std::vector<int> rounds(int n, const std::vector<std::vector<std::size_t>>& clients_of) {
    std::vector<int> counts(clients_of.size());
    last_turns_.resize(clients_of.size());
    for (int i = 0; i < n; ++i) {
      std::vector<Claim> claims;
      for (std::size_t model = 0; model < clients_of.size(); ++model) {
        for (const std::size_t client : clients_of[model]) claims.push_back({model, client, last_turns_[model]});
      }
      const Claim claim = turns_.next(claims);
      turns_.charge(claim.client, 1);
      last_turns_[claim.model] = ++n_turns_;
      ++counts[claim.model];
    }
    return counts;
  }

  RoundTurns turns_;
  std::vector<std::uint64_t> last_turns_;
  std::uint64_t n_turns_ = 0;
};

TEST_F(Turns, ModelsOfOneKeyAlternate) { EXPECT_EQ(rounds(30, {{0}, {0}, {0}}), (std::vector{10, 10, 10})); }

TEST_F(Turns, KeysHaveTheSameTimeHoweverManyModelsTheyAsk) {
  EXPECT_EQ(rounds(60, {{0}, {0}, {0}, {1}}), (std::vector{10, 10, 10, 30}));
}

TEST_F(Turns, AModelOfOneOfSeveralKeysDoesNotStarve) {
  const std::vector<int> counts = rounds(100, {{0, 1}, {1}});
  EXPECT_GE(counts[0], 50);
  EXPECT_GE(counts[1], 25);
}

TEST_F(Turns, TimeWithoutWorkIsNotSaved) {
  rounds(50, {{0}});
  EXPECT_EQ(rounds(20, {{0}, {1}}), (std::vector{10, 10})) << "the new key has not been owed 50 rounds";
}

TEST_F(LoopTest, RequestsOfSeveralModelsHaveTheTokensTheyHaveAlone) {
  LoadedGolden first("gemma2", pool_, loop_), second("llama_mha", pool_, loop_);
  for (LoadedGolden* model : {&first, &second}) loop_.add(model->scheduler());
  begin();
  std::vector<std::pair<LoadedGolden*, std::shared_ptr<Job>>> jobs;
  for (std::size_t i = 0; i < 8; ++i) {
    LoadedGolden& model = i % 2 == 0 ? first : second;
    jobs.emplace_back(&model, golden_job(golden_request(model.model(), i, 10), i % 3));
    model.scheduler()->submit(jobs.back().second);
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Model& model = jobs[i].first->model();
    EXPECT_EQ(result_of(*jobs[i].second).ids, ids_alone(model, golden_request(model, i, 10))) << i;
  }
  EXPECT_EQ(first.metrics.generated_tokens, 40);
  EXPECT_EQ(second.metrics.generated_tokens, 40);
  end();  // the models leave first
}

TEST_F(LoopTest, ASchedulerThatLeavesEndsItsWorkAndNoOthers) {
  LoadedGolden stays("gemma2", pool_, loop_);
  auto leaves = std::make_unique<LoadedGolden>("llama_mha", pool_, loop_);
  loop_.add(stays.scheduler());
  loop_.add(leaves->scheduler());
  begin();
  const auto kept = golden_job(golden_request(stays.model(), 1, 60));
  std::vector<std::shared_ptr<Job>> ended;
  stays.scheduler()->submit(kept);
  for (std::size_t i = 0; i < 500; ++i) {
    ended.push_back(golden_job(golden_request(leaves->model(), i, 40)));
    leaves->scheduler()->submit(ended.back());
  }
  loop_.remove(leaves->scheduler());
  EXPECT_THROW(result_of(*ended.back()), RequestError);
  EXPECT_THROW(leaves->scheduler()->submit(golden_job(golden_request(leaves->model(), 3, 1))), RequestError);
  leaves.reset();
  EXPECT_EQ(result_of(*kept).ids, ids_alone(stays.model(), golden_request(stays.model(), 1, 60)));
  end();  // the model leaves first
}

TEST_F(LoopTest, SchedulersLeaveAlsoWithoutRounds) {
  LoadedGolden before("gemma2", pool_, loop_);
  loop_.add(before.scheduler());
  const auto job = golden_job(golden_request(before.model(), 1, 4));
  before.scheduler()->submit(job);
  loop_.remove(before.scheduler());
  EXPECT_THROW(result_of(*job), RequestError);
  LoadedGolden after("gemma2", pool_, loop_);
  begin();
  end();
  loop_.add(after.scheduler());
  EXPECT_THROW(after.scheduler()->submit(golden_job(golden_request(after.model(), 1, 4))), RequestError);
  loop_.remove(after.scheduler());
}

}  // namespace
}  // namespace vitrine::test
