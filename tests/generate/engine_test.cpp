// The engine: sequences that are added, end or fail do not change the results of the others.
#include "generate/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/error.h"
#include "generate/generator.h"
#include "generate/score.h"
#include "support/dice.h"
#include "support/poisoned.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

std::vector<GenerateRequest> some_requests(const Model& model, std::size_t n) {
  Dice dice(n);
  std::vector<GenerateRequest> requests(n);
  for (std::size_t i = 0; i < n; ++i) {
    requests[i].prompt = some_ids(model, dice.number(1, 30), i);
    requests[i].max_tokens = dice.number(0, 25);
    requests[i].sampling = {.temperature = i % 3 == 0 ? 0.0 : 1.0, .top_k = 0, .top_p = 1};
    requests[i].seed = 3;
    requests[i].sequence = i;
    requests[i].n_logprobs = 2;
  }
  return requests;
}

std::vector<std::pair<std::int32_t, double>> tokens_of(const GenerateResult& result) {
  std::vector<std::pair<std::int32_t, double>> tokens;
  for (const TokenReport& token : result.logprobs) tokens.emplace_back(token.id, token.logprob);
  return tokens;
}

TEST(Engine, ArrivalsCancelsAndBudgetsChangeNoToken) {
  for (const std::string golden : {"gemma2", "mixtral", "phi3_long"}) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    ThreadPool pool(2);
    const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
    const std::vector<GenerateRequest> requests = some_requests(*checkpoint.model, 12);
    std::vector<GenerateResult> alone;
    for (const GenerateRequest& request : requests) alone.push_back(generate(context, {&request, 1})[0]);

    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      Dice dice(seed);
      Engine engine(context);
      std::vector<std::vector<std::pair<std::int32_t, double>>> drawn(requests.size());
      std::set<std::uint64_t> running, cancelled;
      std::size_t n_finished = 0;
      while (drawn.size() > n_finished + cancelled.size()) {
        while (n_finished + cancelled.size() + running.size() < requests.size() && dice.roll() < 0.4) {
          const std::uint64_t id = engine.add(requests[n_finished + cancelled.size() + running.size()]);
          EXPECT_EQ(id, n_finished + cancelled.size() + running.size()) << "ids count from 0";
          running.insert(id);
        }
        if (!running.empty() && dice.roll() < 0.05) {
          const std::uint64_t id = *running.begin();
          engine.cancel(id);
          running.erase(id);
          cancelled.insert(id);
        }
        const std::int64_t budget = dice.number(1, 20);
        const EngineStep step = engine.step(budget);
        EXPECT_TRUE(step.prompt_tokens == 0 || step.prompt_tokens + step.decoded_tokens <= budget);
        EXPECT_LE(step.decoded_tokens, static_cast<std::int64_t>(running.size()));
        for (const SequenceStep& s : step.sequences) {
          ASSERT_TRUE(running.contains(s.id));
          ASSERT_FALSE(s.error);
          for (const TokenReport& token : s.tokens) drawn[s.id].emplace_back(token.id, token.logprob);
          if (!s.result) continue;
          EXPECT_EQ(s.result->ids, alone[s.id].ids) << golden;
          EXPECT_EQ(tokens_of(*s.result), tokens_of(alone[s.id])) << golden;
          EXPECT_EQ(drawn[s.id], tokens_of(alone[s.id])) << golden;
          running.erase(s.id);
          ++n_finished;
        }
        EXPECT_EQ(engine.empty(), running.empty());
      }
      for (const std::uint64_t id : cancelled) {
        const auto all = tokens_of(alone[id]);
        ASSERT_LE(drawn[id].size(), all.size());
        EXPECT_TRUE(std::equal(drawn[id].begin(), drawn[id].end(), all.begin())) << golden;
      }
      EXPECT_GT(n_finished, 6U);
    }
  }
}

/// After the prompt, each step draws one token for every sequence, whatever the budget.
TEST(Engine, DecodingComesBeforePrompts) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  ThreadPool pool(1);
  Engine engine({checkpoint.model.get(), &pool, &default_kernels()});
  GenerateRequest request;
  request.max_tokens = 8;
  request.prompt = {1};
  engine.add(request);
  engine.add(request);
  engine.step();
  request.prompt.assign(20, 2);
  engine.add(request);
  const auto counts = [&](std::int64_t budget) {
    const EngineStep step = engine.step(budget);
    return std::pair(step.decoded_tokens, step.prompt_tokens);
  };
  EXPECT_EQ(counts(1), std::pair(std::int64_t{2}, std::int64_t{0}));
  EXPECT_EQ(counts(5), std::pair(std::int64_t{2}, std::int64_t{3}));
  EXPECT_EQ(counts(100), std::pair(std::int64_t{2}, std::int64_t{17}));
  EXPECT_EQ(counts(1), std::pair(std::int64_t{3}, std::int64_t{0}));
}

TEST(Engine, ASequenceThatIsNotFiniteFailsAlone) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  constexpr std::int32_t kPoison = 9;
  const PoisonedModel poisoned(checkpoint, kPoison);
  const Model& model = poisoned.model();

  ThreadPool pool(2);
  const GenerateContext context{&model, &pool, &default_kernels()};
  std::vector<GenerateRequest> requests(3);
  for (std::size_t i = 0; i < 3; ++i) {
    requests[i].prompt = some_ids(model, 10, i);
    std::replace(requests[i].prompt.begin(), requests[i].prompt.end(), kPoison, 1);
    requests[i].sampling.temperature = 0;
    requests[i].max_tokens = 6;
    requests[i].n_logprobs = 1;
  }
  std::vector<GenerateResult> alone;
  for (const GenerateRequest& request : requests) alone.push_back(generate(context, {&request, 1})[0]);
  requests[1].prompt[7] = kPoison;

  Engine engine(context);
  for (const GenerateRequest& request : requests) engine.add(request);
  std::size_t n_errors = 0, n_results = 0;
  while (!engine.empty()) {
    for (const SequenceStep& s : engine.step(14).sequences) {  // the first prompt and 4 ids of the second, and so on
      if (s.error) {
        ++n_errors;
        EXPECT_EQ(s.id, 1U);
        try {
          std::rethrow_exception(s.error);
        } catch (const NotFinite& e) {
          EXPECT_THAT(e.what(), testing::HasSubstr("[hook_embed]"));
          EXPECT_THAT(e.what(), testing::HasSubstr("row 7")) << "the position in the sequence";
        }
      }
      if (!s.result) continue;
      ++n_results;
      EXPECT_EQ(tokens_of(*s.result), tokens_of(alone[s.id]));
    }
  }
  EXPECT_EQ(n_errors, 1U);
  EXPECT_EQ(n_results, 2U);
  EXPECT_THROW(generate(context, requests), NotFinite);
}

/// The system's memory, with a count of the bytes in use.
class WatchedMemory : public KvMemory {
 public:
  std::shared_ptr<std::byte> take(std::int64_t n) override {
    held_ += n;
    const std::shared_ptr<std::byte> block = system_kv_memory().take(n);
    return {block.get(), [this, n, block](std::byte*) { held_ -= n; }};
  }
  std::int64_t held() const { return held_; }

 private:
  std::int64_t held_ = 0;
};

TEST(Engine, SequencesGiveTheirCachesBackWhenTheyEndOrAreCancelled) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  ThreadPool pool(1);
  WatchedMemory memory;
  GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  context.kv_memory = &memory;
  Engine engine(context);
  GenerateRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 2;
  engine.add(request);
  const std::uint64_t second = engine.add(request);
  EXPECT_EQ(memory.held(), 0) << "memory is taken with the first tokens";
  engine.step();
  const std::int64_t both = memory.held();
  EXPECT_GT(both, 0);
  engine.cancel(second);
  EXPECT_EQ(memory.held(), both / 2) << "at once";
  while (!engine.empty()) engine.step();
  EXPECT_EQ(memory.held(), 0);
}

TEST(Engine, RefusesARequestWithoutTouchingTheOthers) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  ThreadPool pool(1);
  Engine engine({checkpoint.model.get(), &pool, &default_kernels()});
  GenerateRequest good;
  good.prompt = {1, 2};
  good.max_tokens = 1;
  engine.add(good);
  GenerateRequest bad = good;
  bad.prompt = {1, static_cast<std::int32_t>(checkpoint.model->config().vocab_size)};
  EXPECT_THROW(engine.add(bad), BadInput);
  bad.prompt = {};
  EXPECT_THROW(engine.add(bad), BadInput);
  bad = good;
  bad.sampling.top_p = 2;
  EXPECT_THROW(engine.add(bad), BadInput);
  engine.cancel(77);
  const EngineStep step = engine.step();
  ASSERT_EQ(step.sequences.size(), 1U);
  EXPECT_TRUE(step.sequences[0].result);
  EXPECT_TRUE(engine.empty());
}

/// A prompt is read into a cache, truncated, and continued with other tokens: with the bits of a new cache.
TEST(Engine, ACacheMayHoldTheBeginningOfThePrompt) {
  for (const char* name : {"llama_mha", "gpt2", "gemma3", "mixtral", "smollm3"}) {
    const Checkpoint checkpoint = golden_checkpoint(name);
    ThreadPool pool(2);
    const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
    GenerateRequest request;
    request.prompt = some_ids(*checkpoint.model, 20, 1);
    request.max_tokens = 8;
    request.n_logprobs = 2;
    request.sampling = {.temperature = 1.0, .top_k = 0, .top_p = 1};
    const GenerateResult first = generate(context, {&request, 1})[0];

    const std::int64_t capacity = std::min<std::int64_t>(checkpoint.model->config().max_seq_len, 40);
    for (const std::int64_t kept : {27, 20, 11}) {  // 27: all tokens that were fed
      GenerateRequest again = request;
      again.cache = std::make_shared<KvCache>(context.make_cache(capacity));
      ASSERT_EQ(tokens_of(generate(context, {&again, 1})[0]), tokens_of(first)) << name;
      ASSERT_EQ(again.cache->length(), 27);
      if (again.cache->truncate(kept) < kept) {
        EXPECT_FALSE(again.cache->holds_all()) << name;
        EXPECT_EQ(again.cache->length(), 0) << name;
      }
      again.prompt.insert(again.prompt.end(), first.ids.begin(), first.ids.end() - 1);
      again.prompt.resize(static_cast<std::size_t>(kept));
      for (const std::int32_t id : {5, 6, 7}) again.prompt.push_back(id);
      GenerateRequest fresh = again;
      fresh.cache = nullptr;
      const GenerateResult expected = generate(context, {&fresh, 1})[0];
      EXPECT_EQ(tokens_of(generate(context, {&again, 1})[0]), tokens_of(expected)) << name << " " << kept;
    }
  }
}

TEST(Engine, ACacheThatDoesNotFitIsABug) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  ThreadPool pool(1);
  const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  Engine engine(context);
  GenerateRequest request;
  request.prompt = {1, 2, 3};
  request.cache = std::make_shared<KvCache>(context.make_cache(2));
  EXPECT_THROW(engine.add(request), InternalError);
}

TEST(Engine, PromptLogprobsAreThoseOfOnePassOverThePrompt) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  ThreadPool pool(2);
  const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  GenerateRequest request;
  request.prompt = some_ids(*checkpoint.model, 40, 1);
  request.max_tokens = 0;
  request.wants_prompt_logprobs = request.wants_logprobs = true;
  request.n_logprobs = 3;
  std::vector<double> expected;
  score(context, {request.prompt}, [&](std::int64_t first, const Tensor& logits) {
    for (std::int64_t i = 0; i < logits.rows() && first + i + 1 < std::ssize(request.prompt); ++i) {
      const std::span<const float> row(logits.row(i), static_cast<std::size_t>(logits.row_size()));
      expected.push_back(logprob(row, request.prompt[static_cast<std::size_t>(first + i + 1)]));
    }
  });
  for (const std::int64_t budget : {1, 7, 1000}) {
    Engine engine(context);
    engine.add(request);
    GenerateRequest other = request;
    other.max_tokens = 5;
    other.wants_prompt_logprobs = false;
    engine.add(other);
    while (!engine.empty()) {
      for (const SequenceStep& step : engine.step(budget).sequences) {
        if (step.id != 0) continue;
        ASSERT_TRUE(step.result);
        EXPECT_TRUE(step.result->ids.empty());
        std::vector<double> own;
        for (const TokenReport& token : step.result->prompt_logprobs) {
          own.push_back(token.logprob);
          EXPECT_EQ(token.top.size(), 3U);
        }
        EXPECT_EQ(own, expected);
      }
    }
  }
}

/// Only some of a prompt's log-probabilities, in chunks, among other sequences.
TEST(Engine, PromptLogprobsFromAPositionOn) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  ThreadPool pool(2);
  const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  GenerateRequest request;
  request.prompt = some_ids(*checkpoint.model, 30, 1);
  request.max_tokens = 4;
  request.n_logprobs = 1;
  request.wants_prompt_logprobs = true;
  const GenerateResult whole = generate(context, {&request, 1})[0];
  ASSERT_EQ(whole.prompt_logprobs.size(), 29U);
  for (const std::int64_t first : {0, 1, 13, 28, 29}) {
    request.first_prompt_logprob = first;
    Engine engine(context);
    engine.add(request);
    while (!engine.empty()) {
      for (const SequenceStep& step : engine.step(7).sequences) {
        if (!step.result) continue;
        EXPECT_EQ(tokens_of(*step.result), tokens_of(whole));
        ASSERT_EQ(std::ssize(step.result->prompt_logprobs), 29 - first);
        for (std::size_t i = 0; i < step.result->prompt_logprobs.size(); ++i) {
          const TokenReport& expected = whole.prompt_logprobs[i + static_cast<std::size_t>(first)];
          EXPECT_EQ(step.result->prompt_logprobs[i].id, expected.id);
          EXPECT_EQ(step.result->prompt_logprobs[i].logprob, expected.logprob);
        }
      }
    }
  }
  request.first_prompt_logprob = 30;
  EXPECT_THROW(Engine(context).add(request), BadInput);
}

/// Sequences that receive normed rows share passes with others, and get the rows of one pass over their prompts.
TEST(Engine, HiddenRowsAreThoseOfOnePass) {
  for (const char* name : {"gemma3", "mixtral"}) {
    const Checkpoint checkpoint = golden_checkpoint(name);
    ThreadPool pool(2);
    const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
    std::vector<std::vector<float>> expected(3), got(3);
    GenerateRequest other;
    other.prompt = some_ids(*checkpoint.model, 12, 9);
    other.max_tokens = 6;
    other.n_logprobs = 1;
    const GenerateResult alone = generate(context, {&other, 1})[0];
    Engine engine(context);
    engine.add(other);
    for (std::size_t i = 0; i < 3; ++i) {
      GenerateRequest request;
      request.prompt = some_ids(*checkpoint.model, 10 + 9 * static_cast<std::int64_t>(i), i);
      request.max_tokens = 0;
      request.receive_hidden = [&, i](std::int64_t position, const Tensor& rows) {
        EXPECT_EQ(position * rows.row_size(), std::ssize(got[i]));
        got[i].insert(got[i].end(), rows.data, rows.data + rows.count());
      };
      engine.add(request);
      Arena arena;
      Pass pass = context.make_pass(arena, {{0, std::ssize(request.prompt)}});
      pass.receive_hidden = [&](const Tensor& rows) { expected[i].assign(rows.data, rows.data + rows.count()); };
      context.forward(pass, request.prompt);
    }
    std::size_t n_results = 0;
    while (!engine.empty()) {
      for (const SequenceStep& step : engine.step(8).sequences) {
        ASSERT_FALSE(step.error);
        if (!step.result) continue;
        ++n_results;
        if (step.id == 0) {
          EXPECT_EQ(tokens_of(*step.result), tokens_of(alone));
        }
        if (step.id > 0) {
          EXPECT_TRUE(step.result->ids.empty());
        }
      }
    }
    EXPECT_EQ(n_results, 4U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(got[i], expected[i])) << name << ", sequence " << i;
  }
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  ThreadPool pool(1);
  GenerateRequest request;
  request.prompt = {1};
  request.receive_hidden = [](std::int64_t, const Tensor&) {};
  EXPECT_THROW(Engine({checkpoint.model.get(), &pool, &default_kernels()}).add(request), BadInput) << "max_tokens";
}

TEST(Engine, APausedSequenceContinuesWithTheSameTokens) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  ThreadPool pool(2);
  const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  GenerateRequest request;
  request.prompt = some_ids(*checkpoint.model, 10, 1);
  request.max_tokens = 8;
  const std::vector<std::int32_t> alone = generate(context, {&request, 1})[0].ids;
  Engine engine(context);
  const std::uint64_t id = engine.add(request);
  engine.step();
  engine.pause(id, true);
  EXPECT_FALSE(engine.has_work());
  EXPECT_TRUE(engine.step().sequences.empty());
  engine.pause(id, false);
  EXPECT_EQ(engine.n_decoding(), 1);
  std::vector<std::int32_t> ids;
  while (!engine.empty()) {
    for (const SequenceStep& step : engine.step().sequences) {
      if (step.result) ids = step.result->ids;
    }
  }
  EXPECT_EQ(ids, alone);
}

}  // namespace
}  // namespace vitrine::test
