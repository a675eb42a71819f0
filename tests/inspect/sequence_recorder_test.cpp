// Sequences of an engine that read and change their sites: the values are those of one pass over their tokens, and the
// other sequences do not notice.
#include "inspect/sequence_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "base/error.h"
#include "generate/generator.h"
#include "generate/prefix_cache.h"
#include "support/dice.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

std::vector<SiteWrite> writes_of(const std::vector<std::string>& texts) {
  std::vector<SiteWrite> writes;
  for (const std::string& text : texts) writes.push_back(parse_site_write(text));
  return writes;
}

/// What `vitrine trace` gives for these ids.
std::map<std::string, Value> trace(const GenerateContext& context, const std::vector<std::int32_t>& ids,
                                   const std::vector<std::string>& globs, const std::vector<std::string>& writes) {
  std::map<std::string, Value> values;
  Recorder recorder(globs, writes_of(writes), site_layers(context.model->config()),
                    [&](const SiteId& id, const Tensor& value) {
                      values[name_of(id)] = {value.shape, {value.data, value.data + value.count()}};
                    });
  Arena arena;
  Pass pass = context.make_pass(arena, {{0, std::ssize(ids)}});
  pass.taps = &recorder;
  pass.logits = {LogitRequest::Rows::range, 0, std::ssize(ids), {}};
  context.forward(pass, ids);
  return values;
}

/// A sequence with taps of its own.
struct Tapped {
  std::vector<std::string> globs, writes;
  std::shared_ptr<SequenceRecorder> recorder{};
  GenerateRequest request{};
};

const std::vector<std::string> kGlobs = {"hook_embed",          "blocks.*.hook_resid_post",
                                         "*.attn.hook_pattern", "*.hook_attn_scores",
                                         "*.attn.hook_k",       "*.attn.hook_v",
                                         "ln_final.*",          "hook_logits"};
const std::vector<std::string> kWrites = {"blocks.0.hook_resid_post[3:7,2]*=-3", "blocks.1.hook_attn_out[5:]+=0.25",
                                          "blocks.*.attn.hook_pattern[1,4,2]=0.5", "blocks.0.attn.hook_z[6,0]=0"};

std::vector<Tapped> some_tapped(const Model& model) {
  std::vector<Tapped> all(4);
  all[0].globs = kGlobs;
  all[1].writes = kWrites;
  all[2].globs = {"blocks.1.hook_resid_mid", "*.hook_q_input", "hook_tokens"};
  all[2].writes = {"blocks.0.hook_resid_pre[:,1]=2"};
  all[3].globs = {"blocks.*.hook_resid_pre"};
  const bool has_experts = std::any_of(model.config().blocks.begin(), model.config().blocks.end(),
                                       [](const auto& b) { return find<MoeConfig>(b) != nullptr; });
  if (has_experts) all[3].globs = {"*.mlp.*"};
  if (has_experts) all[1].writes.emplace_back("blocks.1.mlp.experts.1.hook_post[:,3]=0.5");
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].recorder = std::make_shared<SequenceRecorder>(model, all[i].globs, writes_of(all[i].writes));
    all[i].request.prompt = some_ids(model, 9 + 7 * static_cast<std::int64_t>(i), i);
    all[i].request.max_tokens = 9;
    all[i].request.n_logprobs = 1;
    all[i].request.sampling = {.temperature = 1.0, .top_k = 0, .top_p = 1};
    all[i].request.sequence = i;
    all[i].request.taps = all[i].recorder;
  }
  return all;
}

std::vector<std::pair<std::int32_t, double>> tokens_of(const GenerateResult& result) {
  std::vector<std::pair<std::int32_t, double>> tokens;
  for (const TokenReport& token : result.logprobs) tokens.emplace_back(token.id, token.logprob);
  return tokens;
}

/// Compares what a sequence has recorded with a trace of all tokens that were fed.
void expect_trace(const GenerateContext& context, const Tapped& tapped, const GenerateResult& result) {
  std::vector<std::int32_t> fed = tapped.request.prompt;
  fed.insert(fed.end(), result.ids.begin(), result.ids.end() - 1);
  std::map<std::string, Value> expected = trace(context, fed, tapped.globs, tapped.writes);
  if (tapped.globs.empty()) expected.clear();
  const auto recorded = tapped.recorder->recorded();
  EXPECT_EQ(recorded.size(), expected.size());
  for (const SequenceRecorder::Recorded& own : recorded) {
    ASSERT_TRUE(expected.contains(own.name)) << own.name;
    EXPECT_EQ(own.shape, expected[own.name].shape) << own.name;
    EXPECT_TRUE(same_bits(own.values, expected[own.name].data)) << own.name;
  }
}

class SequenceSites : public testing::TestWithParam<std::string> {};

TEST_P(SequenceSites, AreThoseOfOnePassHoweverTheWorkIsDivided) {
  const Checkpoint checkpoint = golden_checkpoint(GetParam());
  const Model& model = *checkpoint.model;
  ThreadPool threads(2);
  GenerateContext alone{&model, &threads, &default_kernels()};
  std::vector<GenerateResult> expected;
  for (const Tapped& tapped : some_tapped(model)) {
    expected.push_back(generate(alone, {&tapped.request, 1})[0]);
    expect_trace(alone, tapped, expected.back());
  }
  GenerateRequest plain;
  plain.prompt = some_ids(model, 30, 77);
  plain.max_tokens = 10;
  plain.n_logprobs = 1;
  const GenerateResult expected_plain = generate(alone, {&plain, 1})[0];

  Dice dice(3);
  std::int64_t n_restarts = 0;
  for (int run = 0; run < 6; ++run) {
    KvPool sizes(std::int64_t{1} << 40, 4);
    const std::int64_t longest = std::min<std::int64_t>(40, model.config().max_seq_len);
    const std::int64_t most = model.make_cache(longest, KvType::f32, sizes, KvReach::all).missing_bytes(longest);
    KvPool pool(most * (run % 3 + 1), 4);
    PrefixCache prefixes;
    GenerateContext context = alone;
    context.kv_memory = &pool;
    context.prefixes = &prefixes;
    const std::vector<Tapped> tapped = some_tapped(model);
    Engine engine(context);
    engine.add(plain);
    for (const Tapped& own : tapped) engine.add(own.request);
    engine.add(plain);
    while (!engine.empty()) {
      for (const SequenceStep& step : engine.step(dice.number(1, 30)).sequences) {
        ASSERT_FALSE(step.error);
        if (!step.result) continue;
        const bool is_tapped = step.id > 0 && step.id <= tapped.size();
        EXPECT_EQ(tokens_of(*step.result), tokens_of(is_tapped ? expected[step.id - 1] : expected_plain)) << step.id;
        if (!is_tapped) continue;
        EXPECT_EQ(step.result->cached_tokens, 0);
        expect_trace(alone, tapped[step.id - 1], *step.result);
      }
    }
    n_restarts += engine.n_restarts();
  }
  EXPECT_GT(n_restarts, 0);
}

INSTANTIATE_TEST_SUITE_P(Goldens, SequenceSites,
                         testing::Values("gemma2", "gemma3", "mixtral", "qwen2_moe", "phi3_long", "gpt2", "llama_mha"),
                         [](const auto& of) { return of.param; });

TEST(SequenceRecorder, AValueThatIsNotFiniteFailsItsSequenceAlone) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  const Model& model = *checkpoint.model;
  ThreadPool threads(2);
  const GenerateContext context{&model, &threads, &default_kernels()};
  const std::vector<Tapped> all = some_tapped(model);
  const GenerateResult expected = generate(context, {&all[1].request, 1})[0];
  const std::vector<Tapped> again = some_tapped(model);
  std::vector<SiteWrite> bad = writes_of({"blocks.1.hook_resid_mid[12]=0"});
  bad[0].value = std::numeric_limits<float>::quiet_NaN();
  GenerateRequest failing = again[2].request;
  failing.taps = std::make_shared<SequenceRecorder>(model, std::vector<std::string>{}, bad);
  Engine engine(context);
  engine.add(again[1].request);
  engine.add(failing);
  int n_errors = 0, n_results = 0;
  while (!engine.empty()) {
    for (const SequenceStep& step : engine.step(10).sequences) {
      if (step.error) {
        ++n_errors;
        EXPECT_EQ(step.id, 1U);
        try {
          std::rethrow_exception(step.error);
        } catch (const NotFinite& e) {
          EXPECT_THAT(e.what(), testing::HasSubstr("row 12")) << "the position in the sequence";
        }
      }
      if (!step.result) continue;
      ++n_results;
      EXPECT_EQ(tokens_of(*step.result), tokens_of(expected));
    }
  }
  EXPECT_EQ(n_errors, 1);
  EXPECT_EQ(n_results, 1);
}

TEST(SequenceRecorder, RefusesWhatItCannotDo) {
  const Checkpoint checkpoint = golden_checkpoint("mixtral");
  const Model& model = *checkpoint.model;
  const auto error_of = [&](const std::vector<std::string>& globs, const std::vector<std::string>& writes) {
    try {
      const SequenceRecorder recorder(model, globs, writes_of(writes));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of({"hook_embed"}, {"blocks.0.hook_resid_pre[1000]=1"}), "") << "a position that may come";
  EXPECT_THAT(error_of({"blocks.9.hook_resid_pre"}, {}), testing::HasSubstr("no site of this model matches"));
  EXPECT_THAT(error_of({}, {"blocks.0.hook_nothing=1"}), testing::HasSubstr("no site of this model matches"));
  EXPECT_THAT(error_of({}, {"blocks.0.hook_resid_pre[-1]=1"}), testing::HasSubstr("no last token"));
  EXPECT_THAT(error_of({}, {"blocks.0.hook_resid_pre[:-2]=1"}), testing::HasSubstr("no last token"));
  EXPECT_THAT(error_of({}, {"blocks.0.hook_resid_pre[5:3]=1"}), testing::HasSubstr("empty"));
  EXPECT_THAT(error_of({}, {"blocks.0.hook_resid_pre[0,100000]=1"}), testing::HasSubstr("out of range"));
  EXPECT_THAT(error_of({}, {"blocks.0.hook_resid_pre[0,0,0]=1"}), testing::HasSubstr("more entries"));
  EXPECT_THAT(error_of({}, {"blocks.0.attn.hook_pattern[0,-1]=1"}), testing::HasSubstr("no last token"));
  EXPECT_THAT(error_of({}, {"hook_tokens[0]=1"}), testing::HasSubstr("ids"));
  EXPECT_THAT(error_of({}, {"blocks.0.mlp.experts.0.hook_post[2]=1"}), testing::HasSubstr("all or not at all"));
  EXPECT_THAT(error_of({"hook_loss"}, {}), testing::HasSubstr("the loss is not computed"));
  EXPECT_THAT(error_of({"*.attn.hook_scores_raw"}, {}), testing::HasSubstr("later positions"));
  GenerateRequest request;
  request.prompt = {1};
  request.taps = std::make_shared<SequenceRecorder>(model, std::vector<std::string>{}, std::vector<SiteWrite>{});
  request.beam.n_beams = 2;
  request.sampling.temperature = 0;
  ThreadPool pool(1);
  EXPECT_THROW(Engine({&model, &pool, &default_kernels()}).add(request), Unsupported);
}

}  // namespace
}  // namespace vitrine::test
