// Sequences that share prefixes and lose their memory to each other get the tokens that they get alone.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/init.h"
#include "generate/generator.h"
#include "generate/prefix_cache.h"
#include "support/data.h"
#include "support/dice.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

/// Requests of two owners, many of which begin with the same tokens.
std::vector<GenerateRequest> related_requests(const Model& model, std::size_t n, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<GenerateRequest> requests(n);
  for (std::size_t i = 0; i < n; ++i) {
    GenerateRequest& request = requests[i];
    const std::vector<std::int32_t> base = some_ids(model, 44, static_cast<std::uint64_t>(dice.number(0, 1)));
    request.prompt.assign(base.begin(), base.begin() + dice.number(0, 44));
    const std::vector<std::int32_t> own = some_ids(model, dice.number(1, 5), 100 + i);
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    if (i > 0 && dice.roll() < 0.2) request.prompt = requests[i - 1].prompt;
    request.owner = dice.roll() < 0.3 ? "other" : "";
    request.max_tokens = dice.number(0, 14);
    request.sampling = {.temperature = i % 3 == 0 ? 0.0 : 1.0, .top_k = 0, .top_p = 1};
    request.sequence = i;
    request.n_logprobs = 2;
    request.wants_prompt_logprobs = dice.roll() < 0.2;
  }
  return requests;
}

std::vector<std::pair<std::int32_t, double>> tokens_of(const GenerateResult& result) {
  std::vector<std::pair<std::int32_t, double>> tokens;
  for (const TokenReport& token : result.prompt_logprobs) tokens.emplace_back(token.id, token.logprob);
  for (const TokenReport& token : result.logprobs) tokens.emplace_back(token.id, token.logprob);
  return tokens;
}

/// What happened in a run.
struct Counts {
  std::int64_t restarts = 0, cached = 0, finished = 0;
};

/// Runs the requests in one engine, with arrivals, pauses, cancels and budgets by chance, and compares with `alone`.
Counts run_together(const GenerateContext& context, const std::vector<GenerateRequest>& requests,
                    const std::vector<GenerateResult>& alone, std::uint64_t seed) {
  Dice dice(seed);
  Engine engine(context);
  Counts counts;
  std::set<std::uint64_t> running, paused;
  std::map<std::uint64_t, std::vector<TokenReport>> in_steps;  // log-probabilities of prompts
  std::size_t n_added = 0;
  while (n_added < requests.size() || !running.empty()) {
    while (n_added < requests.size() && dice.roll() < 0.4) {
      GenerateRequest request = requests[n_added++];
      request.prompt_logprobs_in_steps = n_added % 2 == 0;
      running.insert(engine.add(std::move(request)));
    }
    if (!running.empty() && dice.roll() < 0.03) {
      const std::uint64_t id = *std::next(running.begin(), dice.number(0, std::ssize(running) - 1));
      engine.cancel(id);
      running.erase(id);
    }
    for (const std::uint64_t id : running) {
      if (dice.roll() > 0.1) continue;
      const bool pauses = paused.insert(id).second;
      if (!pauses) paused.erase(id);
      engine.pause(id, pauses);
    }
    for (SequenceStep& s : engine.step(dice.number(1, 24)).sequences) {
      EXPECT_TRUE(running.contains(s.id));
      EXPECT_TRUE(!paused.contains(s.id) || requests[s.id].max_tokens == 0);
      if (s.error) std::rethrow_exception(s.error);
      std::vector<TokenReport>& own = in_steps[s.id];
      own.insert(own.end(), s.prompt_logprobs.begin(), s.prompt_logprobs.end());
      if (!s.result) continue;
      running.erase(s.id);
      if (s.id % 2 == 1) {
        EXPECT_TRUE(s.result->prompt_logprobs.empty());
        s.result->prompt_logprobs = own;
      }
      EXPECT_EQ(s.result->ids, alone[s.id].ids) << "sequence " << s.id;
      EXPECT_EQ(tokens_of(*s.result), tokens_of(alone[s.id])) << "sequence " << s.id;
      EXPECT_LT(s.result->cached_tokens, std::ssize(requests[s.id].prompt));
      counts.cached += s.result->cached_tokens;
      ++counts.finished;
    }
  }
  counts.restarts = engine.n_restarts();
  return counts;
}

void expect_no_influence(const Model& model, KvTypes kv_types, std::int64_t n_runs) {
  ThreadPool threads(2);
  GenerateContext context{&model, &threads, &default_kernels()};
  context.kv_types = kv_types;
  const std::vector<GenerateRequest> requests = related_requests(model, 24, 5);
  std::vector<GenerateResult> alone;
  for (const GenerateRequest& request : requests) alone.push_back(generate(context, {&request, 1})[0]);
  Counts sum;
  Dice dice(17);
  for (std::int64_t run = 0; run < n_runs; ++run) {
    const std::int64_t block_length = dice.number(1, 9);
    KvPool sizes(std::int64_t{1} << 40, block_length);
    const std::int64_t largest = model.make_cache(64, kv_types, sizes).missing_bytes(64);
    KvPool pool(largest + static_cast<std::int64_t>(dice.roll() * 3 * static_cast<double>(largest)), block_length);
    PrefixCache prefixes;
    context.kv_memory = &pool;
    context.prefixes = dice.roll() < 0.8 ? &prefixes : nullptr;
    const Counts counts = run_together(context, requests, alone, static_cast<std::uint64_t>(run));
    if (context.prefixes == nullptr) {
      EXPECT_EQ(counts.cached, 0);
    }
    sum.restarts += counts.restarts, sum.cached += counts.cached, sum.finished += counts.finished;
    EXPECT_EQ(pool.used_bytes(), prefixes.idle_bytes()) << "sequences have ended";
    while (prefixes.evict()) {
    }
    EXPECT_EQ(pool.used_bytes(), 0);
    EXPECT_EQ(prefixes.idle_bytes(), 0);
  }
  EXPECT_GT(sum.finished, 10 * n_runs);
  EXPECT_GT(sum.restarts, 0);
  EXPECT_GT(sum.cached, 0);
}

class EngineMemory : public testing::TestWithParam<std::string> {};

TEST_P(EngineMemory, SharingAndRestartsChangeNoToken) {
  expect_no_influence(*golden_checkpoint(GetParam()).model, KvType::f32, 12);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EngineMemory,
                         testing::Values("llama_mha", "gemma2", "gemma3", "mixtral", "mistral", "phi3_long",
                                         "llama_dynamic_rope", "qwen3_moe"),
                         [](const auto& of) { return of.param; });

/// What a second request reports after a first one of the same engine has ended.
std::int64_t cached_after(const Model& model, GenerateRequest first, GenerateRequest second) {
  ThreadPool threads(2);
  GenerateContext context{&model, &threads, &default_kernels()};
  KvPool pool(std::int64_t{1} << 30, 4);
  PrefixCache prefixes;
  context.kv_memory = &pool;
  context.prefixes = &prefixes;
  const GenerateResult expected = generate({&model, &threads, &default_kernels()}, {&second, 1})[0];
  generate(context, {&first, 1});
  const GenerateResult got = generate(context, {&second, 1})[0];
  EXPECT_EQ(tokens_of(got), tokens_of(expected));
  return got.cached_tokens;
}

/// A model of cells or of the last tokens, with a context of 1024 tokens.
Checkpoint stateful_checkpoint(const std::string& layers, const std::string& folder) {
  ThreadPool pool(1);
  Json config = {{"model_type", "vitrine"}, {"layers", layers}, {"d_model", 6},       {"d_hidden", 10},
                 {"n_layers", 2},           {"vocab_size", 40}, {"max_seq_len", 1024}};
  if (layers == "dense") config["context"] = 4;
  init_checkpoint(config, "test", folder, DType::f32, 3, pool);
  return load_checkpoint(folder);
}

class EngineStates : public testing::TestWithParam<std::string> {
 protected:
  const TempFolder folder_;
  const Checkpoint checkpoint_ = stateful_checkpoint(GetParam(), folder_ / "m");
  const Model& model_ = *checkpoint_.model;
};

TEST_P(EngineStates, SharingAndRestartsChangeNoToken) { expect_no_influence(model_, KvType::f32, 24); }

TEST_P(EngineStates, PromptsBeginAtSnapshots) {
  GenerateRequest first;
  first.prompt = some_ids(model_, 700, 1);
  first.max_tokens = 4;
  first.n_logprobs = 1;
  EXPECT_EQ(cached_after(model_, first, first), 699) << "the last token's logits are needed";
  GenerateRequest second = first;
  second.prompt.push_back(3);
  EXPECT_EQ(cached_after(model_, first, second), 700);
  second.prompt[600] ^= 1;
  EXPECT_EQ(cached_after(model_, first, second), 512);
  second.prompt[511] ^= 1;
  EXPECT_EQ(cached_after(model_, first, second), 256);
  second.prompt[0] ^= 1;
  EXPECT_EQ(cached_after(model_, first, second), 0);
  second = first;
  second.owner = "other";
  EXPECT_EQ(cached_after(model_, first, second), 0);

  second = first;  // a text that continues the first one and its answer
  ThreadPool pool(1);
  const GenerateResult answer = generate({&model_, &pool, &default_kernels()}, {&first, 1})[0];
  second.prompt.insert(second.prompt.end(), answer.ids.begin(), answer.ids.end());
  second.prompt.push_back(3);
  EXPECT_EQ(cached_after(model_, first, second), 703) << "the last token that was drawn was not fed";
}

/// A cache that is truncated is read again from its nearest snapshot on, and has the bits of a new one.
TEST_P(EngineStates, TruncatedCachesHaveTheBitsOfNewOnes) {
  ThreadPool pool(2);
  const GenerateContext context{&model_, &pool, &default_kernels()};
  GenerateRequest request;
  request.prompt = some_ids(model_, 600, 1);
  request.max_tokens = 30;
  request.n_logprobs = 2;
  request.sampling = {.temperature = 1.0, .top_k = 0, .top_p = 1};
  const GenerateResult first = generate(context, {&request, 1})[0];
  for (const auto& [length, kept] : {std::pair(629, 629), {628, 599}, {599, 599}, {598, 512}, {300, 256}, {255, 0}}) {
    GenerateRequest again = request;
    again.cache = std::make_shared<KvCache>(context.make_cache(1024));
    again.cache->keep_snapshots();
    ASSERT_EQ(tokens_of(generate(context, {&again, 1})[0]), tokens_of(first));
    ASSERT_EQ(again.cache->length(), 629);
    EXPECT_EQ(again.cache->truncate(length), kept);
    again.prompt.insert(again.prompt.end(), first.ids.begin(), first.ids.end() - 1);
    again.prompt.resize(static_cast<std::size_t>(length));
    for (const std::int32_t id : {5, 6, 7}) again.prompt.push_back(id);
    GenerateRequest fresh = again;
    fresh.cache = nullptr;
    const GenerateResult expected = generate(context, {&fresh, 1})[0];
    EXPECT_EQ(tokens_of(generate(context, {&again, 1})[0]), tokens_of(expected)) << length;
  }
}

/// Beams copy each other's states, also in a cache that was truncated.
TEST_P(EngineStates, BeamsContinueFromSnapshots) {
  ThreadPool pool(2);
  const GenerateContext context{&model_, &pool, &default_kernels()};
  GenerateRequest request;
  request.prompt = some_ids(model_, 300, 1);
  request.sampling.temperature = 0;
  request.max_tokens = 6;
  GenerateRequest again = request;
  again.cache = std::make_shared<KvCache>(context.make_cache(1024));
  again.cache->keep_snapshots();
  generate(context, {&again, 1});
  EXPECT_EQ(again.cache->truncate(290), 256);
  request.beam = again.beam = {.n_beams = 3, .n_best = 3};
  const GenerateResult expected = generate(context, {&request, 1})[0], got = generate(context, {&again, 1})[0];
  ASSERT_EQ(got.hypotheses.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got.hypotheses[i].ids, expected.hypotheses[i].ids);
    EXPECT_EQ(got.hypotheses[i].score, expected.hypotheses[i].score);
  }
}

/// However many texts are read, the idle snapshots stay below the limit, and running sequences find memory.
TEST_P(EngineStates, SnapshotsRespectTheLimits) {
  ThreadPool threads(2);
  GenerateContext context{&model_, &threads, &default_kernels()};
  KvPool sizes(std::int64_t{1} << 40, 16);
  const std::int64_t snapshot = model_.make_cache(1024, KvType::f32, sizes).snapshot_bytes();
  ASSERT_GT(snapshot, 0);
  KvPool pool(4 * snapshot, 16);
  PrefixCache prefixes(snapshot);
  context.kv_memory = &pool;
  context.prefixes = &prefixes;
  for (std::uint64_t i = 0; i < 6; ++i) {
    GenerateRequest request;
    request.prompt = some_ids(model_, 700, i);
    request.max_tokens = 40;
    const GenerateResult expected = generate({&model_, &threads, &default_kernels()}, {&request, 1})[0];
    EXPECT_EQ(generate(context, {&request, 1})[0].ids, expected.ids);
    EXPECT_LE(prefixes.idle_bytes(), snapshot);
    EXPECT_EQ(prefixes.idle_bytes(), pool.used_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Own, EngineStates, testing::Values("lstm", "gru", "rnn", "dense"),
                         [](const auto& of) { return of.param; });

TEST(EngineMemoryTypes, IntegerWeightsAndCaches) {
  const TempFolder temp;
  ThreadPool pool(2);
  write_gguf(temp / "q8_0.gguf", load_checkpoint(source_dir() + "/models/default"), DType::q8_0, {}, pool);
  const Checkpoint quantized = load_checkpoint(temp / "q8_0.gguf");
  expect_no_influence(*quantized.model, KvType::f32, 2);
  expect_no_influence(*quantized.model, KvTypes(KvType::int8, KvType::int4), 2);
}

TEST(EnginePrefixes, AreReusedTokenByToken) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  GenerateRequest first;
  first.prompt = some_ids(*checkpoint.model, 30, 1);
  first.max_tokens = 4;
  first.n_logprobs = 1;
  EXPECT_EQ(cached_after(*checkpoint.model, first, first), 29) << "the last token's logits are needed";
  GenerateRequest second = first;
  second.prompt.resize(23);
  EXPECT_EQ(cached_after(*checkpoint.model, first, second), 22);
  second.prompt[22] ^= 1;
  second.prompt.push_back(1);
  EXPECT_EQ(cached_after(*checkpoint.model, first, second), 22);
  second.prompt[0] ^= 1;
  EXPECT_EQ(cached_after(*checkpoint.model, first, second), 0);

  second = first;
  second.owner = "other";
  EXPECT_EQ(cached_after(*checkpoint.model, first, second), 0);
  second = first;
  second.wants_prompt_logprobs = true;
  EXPECT_EQ(cached_after(*checkpoint.model, first, second), 0) << "their rows need logits";

  second = first;  // a text that continues the first one and its answer
  ThreadPool pool(1);
  const GenerateResult answer = generate({checkpoint.model.get(), &pool, &default_kernels()}, {&first, 1})[0];
  second.prompt.insert(second.prompt.end(), answer.ids.begin(), answer.ids.end());
  second.prompt.push_back(3);
  EXPECT_EQ(cached_after(*checkpoint.model, first, second), 33) << "the last token that was drawn was not fed";
}

/// LongRoPE rotates the keys of a sequence that is planned to be long differently.
TEST(EnginePrefixes, DependOnThePlannedLength) {
  const Checkpoint checkpoint = golden_checkpoint("phi3_long");  // 16 positions, then long factors
  GenerateRequest first;
  first.prompt = some_ids(*checkpoint.model, 10, 1);
  first.max_tokens = 4;
  first.n_logprobs = 1;
  GenerateRequest longer = first;
  longer.max_tokens = 20;
  EXPECT_EQ(cached_after(*checkpoint.model, first, first), 9);
  EXPECT_EQ(cached_after(*checkpoint.model, first, longer), 0);
  EXPECT_EQ(cached_after(*checkpoint.model, longer, longer), 9);
}

/// Several choices of one prompt read it once.
TEST(EnginePrefixes, SequencesWaitForOneThatReadsTheSamePrompt) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  ThreadPool threads(2);
  GenerateContext context{checkpoint.model.get(), &threads, &default_kernels()};
  KvPool pool(std::int64_t{1} << 30, 4);
  PrefixCache prefixes;
  context.kv_memory = &pool;
  context.prefixes = &prefixes;
  Engine engine(context);
  GenerateRequest request;
  request.prompt = some_ids(*checkpoint.model, 30, 1);
  request.max_tokens = 3;
  for (std::uint64_t i = 0; i < 4; ++i) {
    request.sequence = i;
    engine.add(request);
  }
  std::int64_t prompt_tokens = 0, cached = 0;
  while (!engine.empty()) {
    const EngineStep step = engine.step(20);
    prompt_tokens += step.prompt_tokens;
    for (const SequenceStep& s : step.sequences) {
      if (s.result) cached += s.result->cached_tokens;
    }
  }
  EXPECT_EQ(prompt_tokens, 30 + 3);
  EXPECT_EQ(cached, 3 * 29);
}

TEST(EngineMemoryErrors, ASequenceThatIsTooLargeFailsAlone) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  ThreadPool threads(1);
  GenerateContext context{checkpoint.model.get(), &threads, &default_kernels()};
  KvPool sizes(std::int64_t{1} << 40, 4);
  KvPool pool(checkpoint.model->make_cache(24, KvType::f32, sizes).missing_bytes(24), 4);
  context.kv_memory = &pool;
  GenerateRequest small, large;
  small.prompt = some_ids(*checkpoint.model, 10, 1);
  small.max_tokens = 8;
  large.prompt = some_ids(*checkpoint.model, 40, 2);
  const std::vector<std::int32_t> expected =
      generate({checkpoint.model.get(), &threads, &default_kernels()}, {&small, 1})[0].ids;
  Engine engine(context);
  engine.add(small);
  engine.add(large);
  engine.add(small);
  int n_results = 0, n_errors = 0;
  while (!engine.empty()) {
    for (const SequenceStep& s : engine.step(16).sequences) {
      if (s.error) {
        EXPECT_EQ(s.id, 1U);
        EXPECT_THROW(std::rethrow_exception(s.error), OutOfCapacity);
        ++n_errors;
      }
      if (!s.result) continue;
      EXPECT_EQ(s.result->ids, expected);
      ++n_results;
    }
  }
  EXPECT_EQ(n_results, 2);
  EXPECT_EQ(n_errors, 1);
  EXPECT_EQ(pool.used_bytes(), 0);
}

}  // namespace
}  // namespace vitrine::test
