// The scheduler: jobs have the tokens they have alone, whatever else runs, ends or fails.
#include "serve/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "generate/generator.h"
#include "generate/lookup_proposer.h"
#include "generate/prefix_cache.h"
#include "serve/embeddings.h"
#include "serve/request_fields.h"
#include "serve/round_loop.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using namespace std::chrono_literals;

/// A scheduler in a thread of its own.
class Scheduling : public testing::Test {
 protected:
  void start(const SchedulerConfig& config, const std::string& golden = "gemma2") {
    checkpoint_ = golden_checkpoint(golden);
    thread_ = std::thread([this, config] {
      ThreadPool pool(2);
      GenerateContext context{checkpoint_.model.get(), &pool, &default_kernels()};
      if (shares_prefixes_) context.prefixes = &prefixes_;
      if (speculation_) context.speculation = &*speculation_;
      scheduler_.emplace(context, *memory_, config, metrics_, loop_);
      const std::shared_ptr<Scheduler> member(std::shared_ptr<void>(), &*scheduler_);
      loop_.add(member);
      is_ready_ = true;
      while (is_held_) std::this_thread::sleep_for(1ms);
      loop_.run();
    });
    while (!is_ready_) std::this_thread::sleep_for(1ms);
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    is_held_ = false;
    loop_.drain();
    thread_.join();
    EXPECT_EQ(metrics_.kv_used_bytes, 0);
    EXPECT_EQ(metrics_.running, 0);
    EXPECT_EQ(metrics_.waiting, 0);
  }
  GenerateRequest request(std::size_t n, std::int64_t n_tokens, std::int64_t prompt = 12) const {
    GenerateRequest request;
    request.prompt = some_ids(*checkpoint_.model, prompt, n);
    request.max_tokens = n_tokens;
    request.sampling = {.temperature = 1, .top_k = 0, .top_p = 1};
    request.seed = n;
    request.wants_logprobs = true;
    return request;
  }
  std::shared_ptr<Job> job(std::vector<GenerateRequest> sequences, bool streams = false, std::size_t client = 0) {
    return std::make_shared<Job>(client, std::move(sequences), streams, [] {});
  }
  /// Waits for the results, or the error, of a job.
  std::vector<GenerateResult> results(Job& job) {
    std::vector<GenerateResult> all(job.n_sequences());
    std::size_t n = 0;
    const auto deadline = ServerClock::now() + 60s * kSlowdown;
    while (n < all.size()) {
      for (SequenceStep& step : job.take()) {
        if (step.error) std::rethrow_exception(step.error);
        for (const TokenReport& token : step.tokens) drawn_[step.id].push_back(token.id);
        if (step.result) all[step.id] = std::move(*step.result), ++n;
      }
      scheduler_->wake();
      std::this_thread::sleep_for(1ms);
      if (ServerClock::now() > deadline) throw std::runtime_error("the job does not end");
    }
    return all;
  }
  GenerateResult alone(const GenerateRequest& request) const {
    ThreadPool pool(1);
    return generate({checkpoint_.model.get(), &pool, &default_kernels()}, {&request, 1})[0];
  }
  void wait_until(const std::function<bool()>& done) {
    const auto deadline = ServerClock::now() + 60s * kSlowdown;
    while (!done() && ServerClock::now() < deadline) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(done());
  }

  Checkpoint checkpoint_;
  Metrics metrics_;
  std::optional<KvPool> memory_{std::in_place, std::int64_t{1} << 30};
  PrefixCache prefixes_;
  bool shares_prefixes_ = false;
  std::optional<Speculation> speculation_;
  RoundLoop loop_;
  std::optional<Scheduler> scheduler_;
  std::thread thread_;
  std::atomic<bool> is_ready_ = false, is_held_ = false;
  std::map<std::uint64_t, std::vector<std::int32_t>> drawn_;
};

/// Before a response begins.
TEST_F(Scheduling, TooFewTokensForAnyAnswerAreRefused) {
  start({.max_sequences = 1, .max_queue = 10});
  const auto tokenizer = load_tokenizer(source_dir() + "/models/default");
  constrain::ConstraintCache constraints(*tokenizer);
  GenerateRequest constrained = request(1, 4);
  constrained.answer.constraint = constraints.get({constrain::Source::Kind::regex, "[0-9]{5}"});
  try {
    scheduler_->submit(job({request(2, 4), constrained}));
    ADD_FAILURE() << "expected an error";
  } catch (const RequestError& e) {
    EXPECT_EQ(e.where(), "max_tokens");
    EXPECT_EQ(e.kind().status, 400);
    EXPECT_THAT(e.what(), testing::HasSubstr("5 bytes, and there are 4 tokens"));
  }
}

TEST_F(Scheduling, JobsHaveTheTokensTheyHaveAlone) {
  start({.max_sequences = 3, .max_queue = 100});
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::size_t i = 0; i < 10; ++i) {
    jobs.push_back(job({request(i, 12), request(i + 100, 7)}, false, i % 2));
    scheduler_->submit(jobs.back());
    if (i % 4 == 3) jobs.back()->cancel();
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i]->is_cancelled()) continue;
    const std::vector<GenerateResult> all = results(*jobs[i]);
    const GenerateResult first = alone(request(i, 12)), second = alone(request(i + 100, 7));
    EXPECT_EQ(all[0].ids, first.ids);
    EXPECT_EQ(all[1].ids, second.ids);
    ASSERT_EQ(all[0].logprobs.size(), first.logprobs.size());
    for (std::size_t t = 0; t < first.logprobs.size(); ++t)
      EXPECT_EQ(all[0].logprobs[t].logprob, first.logprobs[t].logprob);
  }
  wait_until([&] { return metrics_.cancelled == 2; });
  EXPECT_EQ(metrics_.requests, 10);
}

/// The last row of a prompt ends the sequence while other threads take the rows before it.
/// With proposals, jobs have the tokens and the streams the steps that they have without, and metrics count them.
TEST_F(Scheduling, ProposalsChangeNoStep) {
  speculation_ = lookup_speculation();
  speculation_->fixed = 3;
  start({.max_sequences = 4});
  std::vector<GenerateRequest> requests;
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::size_t i = 0; i < 8; ++i) {
    requests.push_back(request(i, 30));
    requests.back().sampling.temperature = 0.3;  // texts that repeat themselves
    requests.back().prediction = alone(requests.back()).ids;
    jobs.push_back(job({requests.back()}, true));
    scheduler_->submit(jobs.back());
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::vector<SequenceStep> steps;
    wait_until([&] {
      for (SequenceStep& step : jobs[i]->take()) steps.push_back(std::move(step));
      scheduler_->wake();
      return !steps.empty() && (steps.back().result || steps.back().error);
    });
    const GenerateResult expected = alone(requests[i]);
    ASSERT_TRUE(steps.back().result);
    EXPECT_EQ(steps.back().result->ids, expected.ids) << i;
    EXPECT_EQ(steps.size(), expected.ids.size()) << "a step for each token";
    for (std::size_t t = 0; t < steps.size(); ++t) {
      ASSERT_EQ(steps[t].tokens.size(), 1u);
      EXPECT_EQ(steps[t].tokens[0].logprob, expected.logprobs[t].logprob) << i << ", " << t;
    }
  }
  EXPECT_GT(metrics_.draft_tokens_accepted, 20);
  EXPECT_GE(metrics_.draft_tokens, metrics_.draft_tokens_accepted);
  const std::string text = metrics_text(std::vector<ModelMetrics>{{"m", &metrics_}});
  EXPECT_THAT(text, testing::HasSubstr(fmt::format("vitrine_draft_tokens_total{{model=\"m\",method=\"lookup\"}} {}",
                                                   metrics_.draft_tokens.load())));
  EXPECT_THAT(text, testing::HasSubstr("vitrine_draft_tokens_accepted_total{model=\"m\",method=\"lookup\"} "));
}

TEST_F(Scheduling, PromptsAreScoredWithOneNewToken) {
  start({.max_sequences = 32, .max_queue = 100});
  GenerateRequest scored = request(1, 1, 40);
  scored.wants_prompt_logprobs = true;
  const GenerateResult expected = alone(scored);
  ASSERT_EQ(expected.prompt_logprobs.size(), 39U);
  for (int i = 0; i < 20; ++i) {
    const auto batch = job(std::vector<GenerateRequest>(8, scored));
    scheduler_->submit(batch);
    for (const GenerateResult& result : results(*batch)) {
      ASSERT_EQ(result.prompt_logprobs.size(), 39U);
      for (std::size_t t = 0; t < 39; ++t) {
        EXPECT_EQ(result.prompt_logprobs[t].logprob, expected.prompt_logprobs[t].logprob);
      }
    }
  }
}

TEST_F(Scheduling, AStreamReportsEveryToken) {
  start({.max_sequences = 2, .max_queue = 4});
  const auto stream = job({request(1, 20)}, true);
  scheduler_->submit(stream);
  const GenerateResult result = results(*stream)[0];
  EXPECT_EQ(result.ids, alone(request(1, 20)).ids);
  EXPECT_EQ(drawn_[0], result.ids);
  EXPECT_TRUE(stream->times().admitted && stream->times().first_token);
  EXPECT_EQ(metrics_.generated_tokens, 20);
  EXPECT_EQ(metrics_.prompt_tokens, 12);
}

TEST_F(Scheduling, AStreamThatNobodyReadsIsPaused) {
  start({.max_sequences = 3, .max_queue = 4}, "llama_mha");
  const std::vector<GenerateRequest> long_ones = {request(1, 60, 2), request(2, 60, 2), request(3, 60, 2)};
  const auto stream = job(long_ones, true);
  scheduler_->submit(stream);
  wait_until([&] { return stream->n_steps() > Job::kMaxSteps; });
  const auto other = job({request(4, 30)});
  scheduler_->submit(other);
  EXPECT_EQ(results(*other)[0].ids, alone(request(4, 30)).ids) << "its places are free for others";
  EXPECT_LE(stream->n_steps(), Job::kMaxSteps + 3) << "a round later it is paused";
  const std::vector<GenerateResult> all = results(*stream);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(all[i].ids, alone(long_ones[i]).ids) << "it goes on where it was";
}

TEST_F(Scheduling, AJobThatFailsFailsAlone) {
  start({.max_sequences = 4, .max_queue = 4});
  GenerateRequest wrong = request(1, 5);
  wrong.prompt = {1'000'000};
  const auto bad = job({request(3, 50), wrong}), good = job({request(2, 10)});
  scheduler_->submit(bad);
  scheduler_->submit(good);
  EXPECT_THROW(results(*bad), BadInput);
  EXPECT_EQ(results(*good)[0].ids, alone(request(2, 10)).ids);
}

TEST_F(Scheduling, AFullQueueRefusesJobs) {
  is_held_ = true;
  start({.max_sequences = 1, .max_queue = 2});
  const auto first = job({request(1, 3)}), second = job({request(2, 3)}), third = job({request(3, 3)});
  scheduler_->submit(first);
  scheduler_->submit(second);
  try {
    scheduler_->submit(third);
    ADD_FAILURE();
  } catch (const RequestError& e) {
    EXPECT_EQ(e.kind().status, 429);
  }
  EXPECT_EQ(metrics_.rejected, 1);
  EXPECT_EQ(metrics_.waiting, 2);
  const auto of_another_key = job({request(4, 3)}, false, 1);
  scheduler_->submit(of_another_key);
  EXPECT_EQ(metrics_.waiting, 3);
  is_held_ = false;
  EXPECT_EQ(results(*of_another_key)[0].ids, alone(request(4, 3)).ids);
  EXPECT_EQ(results(*second)[0].ids, alone(request(2, 3)).ids);
}

TEST_F(Scheduling, ABurstWaitsAsLongAsItsPromptsFit) {
  is_held_ = true;
  checkpoint_ = golden_checkpoint("gemma2");
  const std::int64_t bytes = job({request(1, 3, 30)})->waiting_bytes();
  EXPECT_GE(bytes, 30 * 4);
  start({.max_sequences = 4, .max_queue_bytes = 300 * bytes});
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::size_t i = 0; i < 300; ++i) {
    jobs.push_back(job({request(i, 1, 30)}));
    scheduler_->submit(jobs.back());
  }
  try {
    scheduler_->submit(job({request(1, 1, 30)}, false, 1));
    ADD_FAILURE();
  } catch (const RequestError& e) {
    EXPECT_EQ(e.kind().status, 429);
    EXPECT_GE(e.retry_after(), 1s);
  }
  is_held_ = false;
  for (const auto& each : jobs) EXPECT_EQ(results(*each)[0].ids.size(), 1U);
  EXPECT_NO_THROW(scheduler_->check_space(0, 300 * bytes));
  EXPECT_NO_THROW(scheduler_->check_space(0, 301 * bytes)) << "a request alone never waits for memory of the queue";
}

/// The prompts of all sequences fit into the memory, all of their tokens do not.
class ScarceMemory : public Scheduling, public testing::WithParamInterface<bool> {};

TEST_P(ScarceMemory, TheYoungestSequencesGiveWay) {
  shares_prefixes_ = GetParam();
  checkpoint_ = golden_checkpoint("gemma2");
  constexpr std::int64_t kBlock = 4;
  CountedKvMemory counted(kBlock);
  const std::int64_t bytes = checkpoint_.model->make_cache(64, KvType::f32, counted).full_bytes(kPrefillChunk) - 1;
  memory_.emplace(bytes, kBlock);
  start({.max_sequences = 8, .max_queue = 100});
  try {
    scheduler_->submit(job({request(1, 60, 30)}));
    ADD_FAILURE() << "larger than all memory";
  } catch (const RequestError& e) {
    EXPECT_EQ(e.kind().status, 400);
  }
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::size_t i = 0; i < 12; ++i) scheduler_->submit(jobs.emplace_back(job({request(i, 20)}, true)));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_LE(metrics_.kv_used_bytes, bytes);
    drawn_.clear();
    const GenerateResult expected = alone(request(i, 20));
    EXPECT_EQ(results(*jobs[i])[0].ids, expected.ids);
    EXPECT_EQ(drawn_[0], expected.ids) << "a token is reported once";
  }
  EXPECT_GT(metrics_.preemptions, 0);
}

INSTANTIATE_TEST_SUITE_P(Prefixes, ScarceMemory, testing::Bool());

/// A request with many sequences does not delay one of another key by more than one sequence, nor, without keys, one of
/// another connection, each of which has one request at a time.
class Turns : public Scheduling, public testing::WithParamInterface<std::size_t> {};

TEST_P(Turns, AreTakenByKeysAndConnections) {
  is_held_ = true;
  start({.max_sequences = 2, .max_queue = 100});
  std::vector<GenerateRequest> many;
  for (std::size_t i = 0; i < 40; ++i) many.push_back(request(i, 12));
  const auto flood = job(std::move(many), true, 0);
  std::optional<std::size_t> n_before;  // steps of the flood before the first one of the other job
  const auto other = std::make_shared<Job>(GetParam(), std::vector{request(1, 12)}, true, [&] {
    if (!n_before) n_before = flood->n_steps();
  });
  scheduler_->submit(flood);
  scheduler_->submit(other);
  is_held_ = false;
  results(*other);
  EXPECT_LE(*n_before, 2U);
  flood->cancel();
  scheduler_->wake();
  wait_until([&] { return metrics_.running == 0; });
}

INSTANTIATE_TEST_SUITE_P(OtherKeyOrTheSame, Turns, testing::Values(1, 0));

TEST_F(Scheduling, VectorsAreComputedInRounds) {
  start({.max_sequences = 5, .max_queue = 100, .round_seconds = 1e-6}, "gemma3");  // a row of a prompt in each round
  const auto running = job({request(1, 30)});
  scheduler_->submit(running);
  std::vector<std::vector<std::int32_t>> texts;
  for (std::uint64_t i = 0; i < 9; ++i)
    texts.push_back(some_ids(*checkpoint_.model, 1 + 3 * static_cast<std::int64_t>(i), i));
  for (std::size_t i = 0; i < words(PoolStep::Mode()).size(); ++i) {
    const auto mode = static_cast<PoolStep::Mode>(i);
    const std::string pooling(words(mode)[i]);
    ServedModel model;
    model.sentences.steps.steps = {PoolStep{{mode}}};
    model.sentences.normalize = mode != PoolStep::Mode::max;
    EmbeddingSequences sequences(model, {.ids = texts}, {});
    const auto encoded = job(std::move(sequences.requests));
    scheduler_->submit(encoded);
    results(*encoded);
    const std::vector<std::vector<float>> vectors = sequences.vectors();
    ThreadPool pool(1);
    const EncodeOptions options{.mode = mode, .normalize = model.sentences.normalize};
    encode({checkpoint_.model.get(), &pool, &default_kernels()}, texts, options,
           [&](std::size_t text, std::span<const float> v) {
             EXPECT_EQ(vectors[text], std::vector<float>(v.begin(), v.end())) << pooling << " " << text;
           });
  }
  EXPECT_EQ(results(*running)[0].ids, alone(request(1, 30)).ids);
}

TEST_F(Scheduling, VectorsOfEncodersAreComputedBetweenRounds) {
  start({.max_sequences = 2, .max_queue = 100});
  const auto running = job({request(1, 30)});
  std::vector<std::vector<std::int32_t>> texts;
  for (std::uint64_t i = 0; i < 9; ++i)
    texts.push_back(some_ids(*checkpoint_.model, 5 + static_cast<std::int64_t>(i), i));
  std::atomic<int> n_passes = 0;
  const auto task_of = [&](std::vector<std::vector<std::int32_t>> of) {
    const auto read = [&](const GenerateContext& context, const TextIds& ids, const ReceiveVector& receive) {
      ++n_passes;
      encode(context, ids.ids, EncodeOptions{}, receive);
    };
    return std::make_shared<TextTask>(0, std::move(of), std::vector<std::vector<std::int32_t>>{}, std::nullopt,
                                      TextReading{"vectors", read}, [] {});
  };
  const auto task = task_of(texts);
  const auto cancelled = task_of(texts);
  const auto wrong = task_of({{}});
  cancelled->cancel();
  scheduler_->submit(running);
  scheduler_->submit(task);
  scheduler_->submit(cancelled);
  scheduler_->submit(wrong);
  wait_until([&] { return task->has_ended() && wrong->has_ended(); });
  const auto vectors = task->take();
  ThreadPool pool(1);
  encode({checkpoint_.model.get(), &pool, &default_kernels()}, texts, {}, [&](std::size_t i, std::span<const float> v) {
    EXPECT_EQ((*vectors)[i], std::vector<float>(v.begin(), v.end()));
  });
  EXPECT_THROW(wrong->take(), BadInput);
  EXPECT_FALSE(cancelled->take());
  EXPECT_EQ(results(*running)[0].ids, alone(request(1, 30)).ids);
}

TEST_F(Scheduling, DrainingEndsAfterTheLastJob) {
  start({.max_sequences = 2, .max_queue = 100});
  const auto running = job({request(1, 30)});
  scheduler_->submit(running);
  loop_.drain();
  try {
    scheduler_->submit(job({request(2, 1)}));
    ADD_FAILURE();
  } catch (const RequestError& e) {
    EXPECT_EQ(e.kind().status, 503);
  }
  thread_.join();
  EXPECT_EQ(results(*running)[0].ids, alone(request(1, 30)).ids);
}

TEST_F(Scheduling, StoppingFailsTheRest) {
  is_held_ = true;
  start({.max_sequences = 2, .max_queue = 100});
  const auto waiting = job({request(1, 30)});
  scheduler_->submit(waiting);
  loop_.stop();
  is_held_ = false;
  thread_.join();
  EXPECT_THROW(results(*waiting), RequestError);
}

}  // namespace
}  // namespace vitrine::test
