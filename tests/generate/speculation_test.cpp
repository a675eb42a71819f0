// Speculative decoding: every event and result is that of decoding token by token, whatever is proposed.
#include "generate/speculation.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/temp_folder.h"
#include "checkpoint/adapters/create.h"
#include "checkpoint/init.h"
#include "generate/dry.h"
#include "generate/generator.h"
#include "generate/lookup_proposer.h"
#include "generate/prefix_cache.h"
#include "support/data.h"
#include "support/dice.h"
#include "support/run.h"
#include "support/state_models.h"
#include "support/stories.h"

namespace vitrine::test {
namespace {

using Events = std::vector<std::string>;

std::string shown(const TokenReport& token) {
  std::string text = fmt::format("{}:{}:{}", token.id, token.logprob, token.removed.value_or(-1));
  for (const TokenLogprob& each : token.top) text += fmt::format(" {}={}", each.id, each.logprob);
  return text;
}

std::string shown(const std::vector<TokenReport>& tokens) {
  std::string text;
  for (const TokenReport& token : tokens) text += shown(token) + ";";
  return text;
}

std::string shown(const GenerateResult& result) {
  return fmt::format("{} [{}] {} {} {} {} {} {}", fmt::join(result.ids, ","), result.text, shown(result.logprobs),
                     shown(result.prompt_logprobs), result.stop_token ? shown(*result.stop_token) : "-",
                     result.stop_string.value_or("-"), name_of(result.finish_reason), result.score);
}

/// A step as a client sees it.
std::string shown(const SequenceStep& step) {
  return fmt::format("{} [{}] {} {}", shown(step.tokens), step.text, shown(step.prompt_logprobs),
                     step.result ? shown(*step.result) : "");
}

/// Proposes what the text will be, with ids that are wrong by chance.
class Oracle : public Proposer {
 public:
  Oracle(std::vector<std::int32_t> answer, std::size_t n_prompt, std::int64_t vocab_size, double right,
         std::uint64_t seed)
      : answer_(std::move(answer)), n_prompt_(n_prompt), vocab_size_(vocab_size), right_(right), dice_(seed) {}

  Proposal propose(std::span<const std::int32_t> ids, std::int64_t most) override {
    Proposal proposal{{}, static_cast<std::size_t>(dice_.number(0, kProposalKinds - 1))};
    const std::int64_t n = dice_.number(0, most);
    for (std::size_t at = ids.size() - n_prompt_; std::ssize(proposal.ids) < n; ++at) {
      const std::int32_t truth = at < answer_.size() ? answer_[at] : 0;
      const auto other = static_cast<std::int32_t>((truth + 1) % vocab_size_);
      proposal.ids.push_back(dice_.roll() < right_ ? truth : other);
    }
    return proposal;
  }

 private:
  std::vector<std::int32_t> answer_;
  std::size_t n_prompt_;
  std::int64_t vocab_size_;
  double right_;
  Dice dice_;
};

/// Requests, the events and results that they have token by token, and the comparison with speculation.
class Comparison {
 public:
  Comparison(GenerateContext context, std::vector<GenerateRequest> requests)
      : context_(context), requests_(std::move(requests)) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      requests_[i].sequence = i;
      alone_.push_back(run({requests_[i]}).at(0));
      answers_.push_back(result_.ids);
    }
  }

  /// All alone, and all in one engine, with proposals of which `right` are right.
  void expect_same(double right, std::uint64_t seed) {
    Speculation speculation{"oracle", [&](const GenerateRequest& request) {
                              const std::size_t i = request.sequence;
                              return std::make_unique<Oracle>(answers_[i], request.prompt.size(),
                                                              context_.model->config().vocab_size, right, seed + i);
                            }};
    speculation.fixed = kMostProposed;
    expect_same(speculation);
  }
  void expect_same_with_lookup() {
    Speculation speculation{"lookup", [](const GenerateRequest& request) {
                              return std::make_unique<LookupProposer>(request.prediction, request.prompt.size());
                            }};
    speculation.fixed = 5;
    expect_same(speculation);
  }

  SpeculationCounts counts;

 private:
  void expect_same(Speculation& speculation) {
    context_.speculation = &speculation;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      EXPECT_EQ(run({requests_[i]}).at(0), alone_[i]) << "sequence " << i << " alone";
    }
    const std::map<std::uint64_t, Events> together = run(requests_);
    for (std::size_t i = 0; i < requests_.size(); ++i) EXPECT_EQ(together.at(i), alone_[i]) << "sequence " << i;
    context_.speculation = nullptr;
  }

  std::map<std::uint64_t, Events> run(std::vector<GenerateRequest> requests) {
    Engine engine(context_);
    for (GenerateRequest& request : requests) {
      if (request.cache != nullptr) {  // as a session has one
        request.cache = std::make_shared<KvCache>(
            context_.make_cache(std::min<std::int64_t>(300, context_.model->config().max_seq_len)));
        request.cache->keep_snapshots(16);
      }
      engine.add(request);
    }
    std::map<std::uint64_t, Events> events;
    while (!engine.empty()) {
      EngineStep step = engine.step();
      counts.add(step.speculation);
      for (SequenceStep& s : step.sequences) {
        if (s.error) std::rethrow_exception(s.error);
        Events& own = events[s.id];
        own.push_back(shown(s));
        if (!s.result) continue;
        result_ = std::move(*s.result);
        if (const KvCache* const cache = requests[s.id].cache.get()) own.push_back(fmt::format("{}", cache->length()));
      }
    }
    return events;
  }

  GenerateContext context_;
  std::vector<GenerateRequest> requests_;
  std::vector<Events> alone_;
  std::vector<std::vector<std::int32_t>> answers_;
  GenerateResult result_;
};

/// Requests with every option of the sampler and of the rules that looks at earlier tokens.
std::vector<GenerateRequest> requests_for(const Model& model, std::size_t n, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<GenerateRequest> requests(n);
  for (std::size_t i = 0; i < n; ++i) {
    GenerateRequest& r = requests[i];
    r.prompt = some_ids(model, dice.number(1, std::min<std::int64_t>(40, model.config().max_seq_len / 2)), seed + i);
    r.max_tokens = dice.number(1, 40);
    r.seed = seed;
    SamplingConfig& s = r.sampling;
    s = {.temperature = i % 3 == 0 ? 0.0 : 1.2, .top_k = i % 4 == 1 ? 5 : 0, .top_p = i % 4 == 2 ? 0.8 : 1};
    if (i % 5 == 1) s.repeat_penalty = 1.3, s.frequency_penalty = 0.5, s.repeat_last_n = 8;
    if (i % 5 == 2) s.dry_multiplier = 0.8, s.dry_allowed_length = 1;
    if (i % 5 == 3) s.xtc_probability = 0.5, s.min_p = 0.01, s.presence_penalty = 0.3;
    if (i % 4 == 3) r.rules.no_repeat_ngram = 2;
    if (i % 4 == 0) r.rules.min_tokens = 5;
    if (i % 6 == 5) r.rules.sequence_bias = {{{r.prompt.back(), 3}, 2.0f}};
    if (i % 2 == 0) r.stop_ids = {5, 9};
    r.n_logprobs = static_cast<int>(i % 3);
    r.wants_logprobs = i % 4 == 0;
    r.wants_sampled_logprobs = i % 7 == 1;
    r.wants_prompt_logprobs = i % 5 == 0;
    r.prompt_logprobs_in_steps = i % 10 == 0;
    r.wants_score = i % 8 == 7;
    r.prediction = some_ids(model, dice.number(0, 10), seed + i + 1);
    if (i % 6 == 4) r.cache = std::make_shared<KvCache>(std::vector<CacheLayerConfig>{}, 0, KvTypes{});  // replaced
  }
  return requests;
}

void expect_same_text(const Model& model, const GenerateContext& context, std::size_t n) {
  Comparison comparison(context, requests_for(model, n, 11));
  comparison.expect_same(1, 1);
  comparison.expect_same(0.7, 2);
  comparison.expect_same(0, 3);
  comparison.expect_same_with_lookup();
  EXPECT_GT(comparison.counts.accepted, 100);
  EXPECT_GT(comparison.counts.drafted - comparison.counts.accepted, 100);
}

class Speculated : public testing::TestWithParam<std::string> {};

TEST_P(Speculated, EveryEventIsTheSame) {
  const Checkpoint checkpoint = golden_checkpoint(GetParam());
  ThreadPool pool(2);
  expect_same_text(*checkpoint.model, {checkpoint.model.get(), &pool, &default_kernels()}, 16);
}

INSTANTIATE_TEST_SUITE_P(Goldens, Speculated,
                         testing::Values("llama_mha", "gemma2", "gemma3n", "mixtral", "mistral", "phi3_long", "llama4",
                                         "llama_dynamic_rope", "deepseek_v3", "gpt_oss", "gpt2", "bloom"),
                         [](const auto& of) { return of.param; });

TEST(Speculation, EveryInstructionSetAndTypeHasTheSameText) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  ThreadPool pool(2);
  const std::vector<KvTypes> types = {{KvType::f32, KvType::f32},
                                      {KvType::bf16, KvType::bf16},
                                      {KvType::f16, KvType::int8},
                                      {KvType::int8, KvType::int4}};
  for (const Isa isa : available_isas()) {
    for (const KvTypes& kv : types) {
      GenerateContext context{checkpoint.model.get(), &pool, &kernels_for(isa)};
      context.kv_types = kv;
      expect_same_text(*checkpoint.model, context, 8);
    }
  }
}

/// Adapters of the context, and others of single requests in the same batch.
TEST(Speculation, AdaptedSequencesHaveTheSameText) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  NewAdapter options;
  options.rank = 2;
  const WritableAdapter made = new_adapter(checkpoint, options, 3);
  for (const AdapterMatrix& matrix : made.matrices) {
    for (std::int64_t i = 0; i < matrix.param->shape.count(); ++i) {
      matrix.values[i] = 0.05F * static_cast<float>((i * 7919 + 3) % 11 - 5);
    }
  }
  ThreadPool pool(2);
  GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  const std::vector<AppliedAdapter> applied = {{made.adapter, 0.5}};
  context.modifiers.adapters = applied;
  std::vector<GenerateRequest> requests = requests_for(*checkpoint.model, 12, 11);
  for (std::size_t i = 0; i < requests.size(); i += 3) requests[i].modifiers.emplace();  // without one
  Comparison comparison(context, requests);
  comparison.expect_same(0.7, 2);
  comparison.expect_same_with_lookup();
  EXPECT_GT(comparison.counts.accepted, 50);
}

class SpeculatedStates : public testing::TestWithParam<std::string> {};

TEST_P(SpeculatedStates, EveryEventIsTheSame) {
  const TempFolder folder;
  const Checkpoint checkpoint = state_model(GetParam(), folder / "m");
  ThreadPool pool(2);
  GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  expect_same_text(*checkpoint.model, context, 12);
  PrefixCache prefixes;
  KvPool memory(std::int64_t{1} << 30, 8);
  context.prefixes = &prefixes;
  context.kv_memory = &memory;
  context.state_every = 8;
  expect_same_text(*checkpoint.model, context, 12);
}

INSTANTIATE_TEST_SUITE_P(Small, SpeculatedStates, testing::ValuesIn(kStateModels),
                         [](const auto& of) { return of.param; });

/// Recurrent layers cannot return into a pass: such models are decoded token by token.
TEST(Speculation, RecurrentModelsDecodePlainly) {
  const TempFolder folder;
  ThreadPool pool(2);
  init_checkpoint(Json{{"model_type", "vitrine"},
                       {"layers", "lstm"},
                       {"d_model", 6},
                       {"d_hidden", 10},
                       {"n_layers", 2},
                       {"vocab_size", 40},
                       {"max_seq_len", 1024}},
                  "test", folder / "m", DType::f32, 3, pool);
  const Checkpoint checkpoint = load_checkpoint(folder / "m");
  const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  Comparison comparison(context, requests_for(*checkpoint.model, 12, 3));
  comparison.expect_same(0.7, 2);
  EXPECT_EQ(comparison.counts.drafted, 0);
}

/// Constraints, forced text, banned strings, stop strings and reasoning budgets of a model with a tokenizer.
class SpeculatedText : public StoriesTest {
 protected:
  GenerateRequest request(std::size_t i) {
    GenerateRequest r;
    r.prompt = tokenizer_->encode("Once upon a time, there was a little", SpecialTokens::apply);
    r.max_tokens = 60;
    r.stop_ids = checkpoint_.stop_ids;
    r.sampling = {.temperature = i % 2 == 0 ? 0.0 : 1.0, .top_k = 0, .top_p = 1};
    r.seed = i;
    r.n_logprobs = static_cast<int>(i % 3);
    return r;
  }
};

TEST_F(SpeculatedText, EveryEventIsTheSame) {
  using constrain::Source;
  const std::vector<Source> sources = {
      {Source::Kind::regex, "[0-9]{4}-(0[1-9]|1[0-2])(, [a-z]+)*"},
      {Source::Kind::choice, "", {"yes, it is", "yes, it was", "no"}},
      {Source::Kind::schema, R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
        "kind": {"enum": ["small and green", "large and blue"]}}, "required": ["name", "kind"]})"}};
  std::vector<GenerateRequest> requests;
  for (std::size_t i = 0; i < 24; ++i) {
    GenerateRequest r = request(i);
    if (i % 4 == 0) {
      r.answer.constraint = constraints_->get(sources[i / 4 % 3]);
      if (i % 8 == 0) r.answer.fast_forward = constraints_->tokens();
      r.max_tokens = 90;
    }
    if (i % 4 == 1) r.stop_strings = {"was", " play"}, r.shows_stop = i % 8 == 1;
    if (i % 4 == 2) {
      r.banned =
          std::make_shared<const BannedStrings>(std::vector<std::string>{"she", "big"}, constraints_->vocabulary());
    }
    if (i % 4 == 3) {
      r.reasoning = ReasoningBudget{5, "<t>", ". The end", tokenizer_->encode(". The end", SpecialTokens::none), true};
    }
    if (i % 6 == 5) r.limits.repetition = RepetitionLimit{1, 4, 2};
    requests.push_back(std::move(r));
  }
  Comparison comparison(context(), requests);
  comparison.expect_same(1, 1);
  comparison.expect_same(0.8, 2);
  comparison.expect_same(0.8, 3);
  comparison.expect_same(0, 4);
  comparison.expect_same_with_lookup();
  EXPECT_GT(comparison.counts.accepted, 500);
  EXPECT_GT(comparison.counts.drafted - comparison.counts.accepted, 500);
}

/// Sequences come, pause, lose their memory to each other and share prefixes.
TEST(Speculation, RestartedSequencesHaveTheSameText) {
  for (const std::string golden : {"gemma2", "mistral", "mixtral"}) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    const Model& model = *checkpoint.model;
    ThreadPool threads(2);
    GenerateContext context{&model, &threads, &default_kernels()};
    std::vector<GenerateRequest> requests = requests_for(model, 16, 5);
    std::vector<GenerateResult> alone;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].sequence = i;
      requests[i].cache = nullptr;
      requests[i].prompt_logprobs_in_steps = false;
      alone.push_back(generate(context, {&requests[i], 1})[0]);
    }
    std::int64_t n_restarts = 0;
    SpeculationCounts counts;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      Dice dice(seed);
      const std::int64_t block_length = dice.number(1, 9);
      KvPool sizes(std::int64_t{1} << 40, block_length);
      const std::int64_t largest = model.make_cache(64, {}, sizes).missing_bytes(64);
      KvPool pool(largest + static_cast<std::int64_t>(dice.roll() * 3 * static_cast<double>(largest)), block_length);
      PrefixCache prefixes;
      context.kv_memory = &pool;
      context.prefixes = &prefixes;
      Speculation speculation{"oracle", [&](const GenerateRequest& request) {
                                return std::make_unique<Oracle>(alone[request.sequence].ids, request.prompt.size(),
                                                                model.config().vocab_size, 0.8, seed);
                              }};
      speculation.fixed = dice.number(1, 8);
      context.speculation = &speculation;
      Engine engine(context);
      for (const GenerateRequest& request : requests) engine.add(request);
      while (!engine.empty()) {
        const auto id = static_cast<std::uint64_t>(dice.number(0, 15));
        engine.pause(id, dice.roll() < 0.3);
        if (!engine.has_work()) engine.pause(id, false);
        EngineStep step = engine.step(dice.number(1, 40));
        counts.add(step.speculation);
        for (const SequenceStep& s : step.sequences) {
          if (s.error) std::rethrow_exception(s.error);
          if (!s.result) continue;
          EXPECT_EQ(shown(*s.result), shown(alone[s.id])) << golden << " " << seed << " " << s.id;
        }
        if (engine.has_work()) continue;
        for (std::uint64_t all = 0; all < requests.size(); ++all) engine.pause(all, false);
      }
      n_restarts += engine.n_restarts();
    }
    context.kv_memory = &system_kv_memory();
    context.prefixes = nullptr;
    context.speculation = nullptr;
    EXPECT_GT(n_restarts, 0) << golden;
    EXPECT_GT(counts.accepted, 20) << golden;
    EXPECT_GT(counts.drafted, counts.accepted) << golden;
  }
}

/// The rows of a sequence that stays in the cache are those of the text.
TEST(Speculation, CountsAreThoseOfTheRows) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  ThreadPool pool(1);
  GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  GenerateRequest request;
  request.prompt = some_ids(*checkpoint.model, 5);
  request.max_tokens = 30;
  request.sampling.temperature = 0;
  const GenerateResult plain = generate(context, {&request, 1})[0];
  EXPECT_FALSE(plain.speculation);
  Speculation speculation{"oracle", [&](const GenerateRequest&) {
                            return std::make_unique<Oracle>(plain.ids, 5, checkpoint.model->config().vocab_size, 1, 1);
                          }};
  speculation.fixed = 4;
  context.speculation = &speculation;
  Engine engine(context);
  engine.add(request);
  SpeculationCounts counts;
  std::int64_t n_decoded = 0;
  std::optional<GenerateResult> result;
  while (!engine.empty()) {
    EngineStep step = engine.step();
    counts.add(step.speculation);
    n_decoded += step.decoded_tokens;
    EXPECT_LE(step.speculation.drafted, 4);
    for (SequenceStep& s : step.sequences) {
      EXPECT_EQ(s.tokens.size(), 1u);
      if (s.result) result = std::move(*s.result);
    }
  }
  EXPECT_EQ(result->ids, plain.ids);
  EXPECT_EQ(n_decoded, 29) << "the last token is not fed";
  EXPECT_EQ(counts.accepted, counts.drafted) << "all are right";
  EXPECT_EQ(result->speculation->drafted, counts.drafted);
  EXPECT_EQ(result->speculation->accepted, counts.accepted);
  EXPECT_EQ(result->speculation->rounds, counts.rounds);
}

}  // namespace
}  // namespace vitrine::test
