// What is proposed, and how many proposed ids are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "generate/draft_proposer.h"
#include "generate/generator.h"
#include "generate/lookup_proposer.h"
#include "support/data.h"
#include "support/poisoned.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

TEST(LookupProposer, TakesTheLongestMatchThenTheMostRecent) {
  const std::vector<std::int32_t> ids = {1, 2, 3, 4, 9, 2, 3, 5, 8, 2, 3, 6, 7, 1, 2, 3};
  LookupProposer proposer({}, ids.size());
  EXPECT_EQ(proposer.propose(ids, 3).ids, (std::vector<std::int32_t>{4, 9, 2})) << "three ids are equal";
  LookupProposer second({}, ids.size() - 3);
  EXPECT_EQ(second.propose(std::span(ids).subspan(1, 15), 2).ids, (std::vector<std::int32_t>{6, 7})) << "the last one";
  LookupProposer none({}, 3);
  EXPECT_TRUE(none.propose(std::vector<std::int32_t>{1, 2, 3}, 4).ids.empty());
}

TEST(LookupProposer, RepeatsWhatReachesTheEnd) {
  LookupProposer proposer({}, 5);
  EXPECT_EQ(proposer.propose(std::vector<std::int32_t>{7, 8, 9, 7, 8}, 5).ids,
            (std::vector<std::int32_t>{9, 7, 8, 9, 7}));
}

TEST(LookupProposer, GoesOnAfterASingleDifference) {
  std::vector<std::int32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 50, 1, 2, 3, 4, 5};
  LookupProposer proposer({}, 13);
  EXPECT_EQ(proposer.propose(ids, 2).ids, (std::vector<std::int32_t>{6, 7}));
  ids.push_back(60);  // for 6
  const Proposal proposal = proposer.propose(ids, 3);
  EXPECT_EQ(proposal.ids, (std::vector<std::int32_t>{7, 8, 9}));
  EXPECT_EQ(proposal.kind, 0u);
  ids.insert(ids.end(), {61, 62, 63});
  EXPECT_TRUE(proposer.propose(ids, 3).ids.empty()) << "the copy has ended";
}

TEST(LookupProposer, BeginsWithThePrediction) {
  const std::vector<std::int32_t> prediction = {20, 21, 22, 23};
  LookupProposer proposer(prediction, 2);
  std::vector<std::int32_t> ids = {1, 2};
  EXPECT_EQ(proposer.propose(ids, 9).ids, prediction) << "not beyond its end";
  ids.insert(ids.end(), {20, 21});
  EXPECT_EQ(proposer.propose(ids, 9).ids, (std::vector<std::int32_t>{22, 23}));
  ids.insert(ids.end(), {5, 6, 7, 8, 22});
  EXPECT_TRUE(proposer.propose(ids, 9).ids.empty()) << "one id is no match";
  ids.insert(ids.end(), {21, 22});
  EXPECT_EQ(proposer.propose(ids, 9).ids, (std::vector<std::int32_t>{23}));
}

TEST(RowCosts, LearnTheShapeAndFollowTheSpeed) {
  RowCosts costs;
  EXPECT_FALSE(costs.is_measured());
  for (int i = 0; i < 40; ++i) {
    costs.measure(1, 0.010);
    costs.measure(8, 0.040);
  }
  EXPECT_NEAR(costs.seconds(1), 0.010, 0.001);
  EXPECT_NEAR(costs.seconds(8), 0.040, 0.005);
  for (int i = 0; i < 20; ++i) costs.measure(1, 0.020);  // the machine is slower now
  EXPECT_NEAR(costs.seconds(1), 0.020, 0.001);
  EXPECT_GT(costs.seconds(8), 0.055);
  for (std::int64_t n = 1; n < 100; ++n) EXPECT_LE(costs.seconds(n), costs.seconds(n + 1)) << n;
}

TEST(NumbersToRead, FollowAcceptanceAndCosts) {
  const auto costs_of = [](double per_row) {
    RowCosts costs;
    for (int i = 0; i < 30; ++i) {
      for (const std::int64_t n : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64})
        costs.measure(n, 0.01 * (1 + per_row * static_cast<double>(n - 1)));
    }
    return costs;
  };
  const RowCosts cheap = costs_of(0.05), dear = costs_of(1);
  using Offers = std::vector<SpeculationOffer>;
  EXPECT_GT(numbers_to_read(Offers{{0.95, 16}}, cheap)[0], 6);
  EXPECT_EQ(numbers_to_read(Offers{{0.95, 3}}, cheap)[0], 3) << "no more than there are";
  EXPECT_EQ(numbers_to_read(Offers{{0.02, 16}}, cheap)[0], 0);
  EXPECT_EQ(numbers_to_read(Offers{{0.8, 16}}, dear)[0], 0) << "rows cost what tokens cost";
  EXPECT_EQ(numbers_to_read(Offers{{0.9, 16}}, RowCosts())[0], 0) << "nothing is measured";
  const std::vector<std::int64_t> mixed = numbers_to_read(Offers{{0.9, 16}, {0.1, 16}}, cheap);
  EXPECT_GT(mixed[0], 2);
  EXPECT_EQ(mixed[1], 0);
  EXPECT_LT(numbers_to_read(Offers{{0.7, 16, 0.004}}, cheap)[0], numbers_to_read(Offers{{0.7, 16}}, cheap)[0])
      << "drafting costs time, too";
}

TEST(Acceptance, FollowsTheLastProposals) {
  Acceptance acceptance;
  EXPECT_EQ(acceptance.rate(2), 0.5);
  for (int i = 0; i < 60; ++i) acceptance.count(2, 1, false);
  EXPECT_GT(acceptance.rate(2), 0.93);
  EXPECT_EQ(acceptance.rate(3), 0.5) << "each kind has its own";
  for (int i = 0; i < 60; ++i) acceptance.count(2, 0, true);
  EXPECT_LT(acceptance.rate(2), 0.07);
}

/// A model is its own draft: greedy texts accept everything, sampled ones a part, and all of them stay the same.
TEST(DraftProposer, FollowsTheText) {
  for (const std::string golden : {"gemma2", "mistral", "lfm2", "llama_mha"}) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    ThreadPool pool(2);
    GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
    Speculation speculation = draft_speculation(context, context);
    speculation.fixed = 4;
    SpeculationCounts greedy, sampled;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      GenerateRequest request;
      request.prompt = some_ids(*checkpoint.model, 3 + static_cast<std::int64_t>(seed), seed);
      request.max_tokens = 24;
      request.sampling = {.temperature = seed % 2 == 0 ? 0.0 : 0.8, .top_k = 0, .top_p = 1};
      request.seed = seed;
      request.n_logprobs = 1;
      const GenerateResult plain = generate(context, {&request, 1})[0];
      context.speculation = &speculation;
      context.chunk = seed < 2 ? kPrefillChunk : 3;  // the draft reads the prompt in several calls
      const GenerateResult result = generate(context, {&request, 1})[0];
      context.speculation = nullptr;
      EXPECT_EQ(result.ids, plain.ids) << golden;
      EXPECT_EQ(result.logprobs[5].logprob, plain.logprobs[5].logprob) << golden;
      (seed % 2 == 0 ? greedy : sampled).add(result.speculation.value());
    }
    EXPECT_GT(greedy.drafted, 20) << golden;
    EXPECT_EQ(greedy.accepted, greedy.drafted) << golden;
    EXPECT_GT(sampled.drafted, sampled.accepted) << golden;
  }
}

TEST(DraftProposer, ProposesNothingBeyondItsContext) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");  // 32 tokens
  const Checkpoint target = golden_checkpoint("llama_mha");
  ThreadPool pool(1);
  const auto shared = std::make_shared<DraftProposer::Shared>();
  shared->context = {checkpoint.model.get(), &pool, &default_kernels()};
  shared->vocab_size = 5;
  DraftProposer proposer(shared, 500);
  EXPECT_TRUE(proposer.propose(std::vector<std::int32_t>(30, 1), 4).ids.empty());
  const std::vector<std::int32_t> ids = proposer.propose(std::vector<std::int32_t>(20, 1), 4).ids;
  EXPECT_THAT(ids, testing::Each(testing::Lt(5))) << "ids that the model does not have are not proposed";
}

/// Ids that the tokenizers of two models call differently.
TEST(DraftProposer, NamesTheFirstIdThatDiffers) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha"), other = golden_checkpoint("gpt2");
  ThreadPool pool(1);
  const auto tokenizer = load_tokenizer(source_dir() + "/models/default");
  GenerateContext model{checkpoint.model.get(), &pool, &default_kernels()};
  GenerateContext draft{other.model.get(), &pool, &default_kernels()};
  const auto message = [&] {
    try {
      check_same_vocabulary(model, draft);
    } catch (const BadInput& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  if (checkpoint.model->config().vocab_size != other.model->config().vocab_size) {
    const std::int64_t n = checkpoint.model->config().vocab_size, n_draft = other.model->config().vocab_size;
    EXPECT_THAT(message(), testing::HasSubstr(fmt::format("but id {} is only in the {}", std::min(n, n_draft),
                                                          n > n_draft ? "model" : "draft")));
  }
  model.tokenizer = draft.tokenizer = tokenizer.get();
  EXPECT_EQ(message(), "");
  const std::string folder = outside_data("models/stories260K");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no models/stories260K";
  const auto stories = load_tokenizer(folder + "/tok512.bin");
  draft.tokenizer = stories.get();
  std::int32_t first = 0;
  while (tokenizer->piece(first) == stories->piece(first) && tokenizer->bytes(first) == stories->bytes(first)) ++first;
  EXPECT_THAT(message(),
              testing::HasSubstr(fmt::format("but id {} is \"{}\" in the model", first, tokenizer->piece(first))));
}

/// Proposes an id whose row is not a number.
class Poison : public Proposer {
 public:
  Poison(std::vector<std::int32_t> answer, std::size_t n_prompt, std::int32_t id)
      : answer_(std::move(answer)), n_prompt_(n_prompt), id_(id) {}
  Proposal propose(std::span<const std::int32_t> ids, std::int64_t most) override {
    const std::size_t at = ids.size() - n_prompt_;
    Proposal proposal{{at < answer_.size() ? answer_[at] : 0, id_}};
    proposal.ids.resize(static_cast<std::size_t>(std::min<std::int64_t>(most, 2)));
    return proposal;
  }

 private:
  std::vector<std::int32_t> answer_;
  std::size_t n_prompt_;
  std::int32_t id_;
};

TEST(Speculation, QuickPassesDoWithoutProposals) {
  Speculation speculation = lookup_speculation();
  EXPECT_TRUE(speculation.may_pay(1)) << "nothing is known yet";
  speculation.costs.measure(1, 30e-6);
  EXPECT_FALSE(speculation.may_pay(1));
  EXPECT_TRUE(speculation.may_pay(64)) << "a pass of many sequences is longer";
  speculation.fixed = 2;
  EXPECT_TRUE(speculation.may_pay(1));
}

TEST(Speculation, ProposalsThatAreNotFiniteEndNoText) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  constexpr std::int32_t kPoison = 9;
  const PoisonedModel poisoned(checkpoint, kPoison);
  const Model& model = poisoned.model();
  ThreadPool pool(2);
  GenerateContext context{&model, &pool, &default_kernels()};
  std::vector<GenerateRequest> requests(3);
  std::vector<GenerateResult> alone;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = some_ids(model, 10, i);
    std::replace(requests[i].prompt.begin(), requests[i].prompt.end(), kPoison, 1);
    requests[i].sampling.temperature = 0;
    requests[i].rules.suppressed = {kPoison};
    requests[i].max_tokens = 12;
    requests[i].sequence = i;
    alone.push_back(generate(context, {&requests[i], 1})[0]);
  }
  Speculation speculation{"poison", [&](const GenerateRequest& request) {
                            return std::make_unique<Poison>(alone[request.sequence].ids, 10, kPoison);
                          }};
  speculation.fixed = 2;
  context.speculation = &speculation;
  const std::vector<GenerateResult> together = generate(context, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(generate(context, {&requests[i], 1})[0].ids, alone[i].ids);
    EXPECT_EQ(together[i].ids, alone[i].ids);
    EXPECT_EQ(together[i].speculation->rounds, 1) << "after the first failure there are no proposals";
  }
}

}  // namespace
}  // namespace vitrine::test
