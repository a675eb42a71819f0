// Texts that are read in one pass among other sequences: their values are those of `vitrine trace`.
#include "inspect/text_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "generate/generator.h"
#include "generate/prefix_cache.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using Recorded = SequenceRecorder::Recorded;

std::vector<SiteWrite> writes_of(const std::vector<std::string>& texts) {
  std::vector<SiteWrite> writes;
  for (const std::string& text : texts) writes.push_back(parse_site_write(text));
  return writes;
}

/// What `vitrine trace` writes.
std::vector<Recorded> trace(const GenerateContext& context, const std::vector<std::int32_t>& ids,
                            const std::vector<std::string>& globs, const std::vector<std::string>& writes) {
  std::vector<Recorded> values;
  Recorder recorder(globs, writes_of(writes), site_layers(context.model->config()),
                    [&](const SiteId& id, const Tensor& value) {
                      values.push_back({name_of(id), value.shape, {value.data, value.data + value.count()}});
                    });
  Arena arena;
  Pass pass = context.make_pass(arena, {{0, std::ssize(ids)}});
  pass.taps = &recorder;
  pass.logits = {LogitRequest::Rows::range, 0, std::ssize(ids), {}};
  context.forward(pass, ids);
  return values;
}

struct Read {
  std::vector<std::string> globs, writes;
};

class Texts : public testing::TestWithParam<std::string> {};

TEST_P(Texts, AreReadInOnePassAmongOthers) {
  const Checkpoint checkpoint = golden_checkpoint(GetParam());
  const Model& model = *checkpoint.model;
  ThreadPool threads(2);
  const GenerateContext alone{&model, &threads, &default_kernels()};
  const std::vector<Read> reads = {
      {},
      {{"*.attn.hook_scores_raw", "hook_loss"}, {}},
      {{"blocks.*.hook_resid_post", "hook_logits"}, {"blocks.0.hook_resid_post[-3:,2]*=-2", "hook_embed[:-4]+=0.5"}},
      {{"*.attn.hook_pattern"}, {"blocks.*.attn.hook_pattern[1,-1,:4]=0.25", "blocks.0.attn.hook_z[6,0]=0"}}};
  PrefixCache prefixes;
  GenerateContext context = alone;
  context.prefixes = &prefixes;
  Engine engine(context);
  GenerateRequest plain;
  plain.prompt = some_ids(model, 20, 7);
  plain.max_tokens = 8;
  engine.add(plain);
  std::vector<std::shared_ptr<TextRecorder>> recorders;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    GenerateRequest request;
    request.prompt = some_ids(model, 18 + static_cast<std::int64_t>(i), 7 + i);
    request.max_tokens = 0;
    recorders.push_back(
        std::make_shared<TextRecorder>(model, reads[i].globs, writes_of(reads[i].writes), std::ssize(request.prompt)));
    request.taps = recorders.back();
    engine.add(request);
  }
  while (!engine.empty()) {
    for (const SequenceStep& step : engine.step(5).sequences) {
      EXPECT_FALSE(step.error);
      if (step.id == 0 && step.result) {
        EXPECT_EQ(step.result->ids, generate(alone, {&plain, 1})[0].ids);
      }
    }
  }
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const auto ids = some_ids(model, 18 + static_cast<std::int64_t>(i), 7 + i);
    const std::vector<Recorded> expected = trace(alone, ids, reads[i].globs, reads[i].writes);
    const std::vector<Recorded>& recorded = recorders[i]->recorded();
    ASSERT_EQ(recorded.size(), expected.size());
    std::int64_t bytes = 0;
    for (std::size_t v = 0; v < expected.size(); ++v) {
      EXPECT_EQ(recorded[v].name, expected[v].name) << "in the order of the forward";
      EXPECT_EQ(recorded[v].shape, expected[v].shape) << expected[v].name;
      EXPECT_TRUE(same_bits(recorded[v].values, expected[v].values)) << expected[v].name;
      bytes += 4 * std::ssize(expected[v].values);
    }
    EXPECT_LE(std::ssize(expected), recorders[i]->max_sites());
    if (max_experts(model.config()) == 0 && i < 2) {
      EXPECT_EQ(recorders[i]->bytes(), bytes);
    }
    if (i == 1) {
      EXPECT_EQ(recorded_bytes(model.config(), reads[i].globs, std::ssize(ids)), recorders[i]->bytes());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, Texts,
                         testing::Values("gemma2", "gemma3", "mixtral", "qwen2_moe", "phi3_long", "gpt2", "llama_mha"),
                         [](const auto& of) { return of.param; });

TEST(TextRecorder, FindsErrorsBeforeThePass) {
  const Checkpoint checkpoint = golden_checkpoint("mixtral");
  const auto error_of = [&](const std::vector<std::string>& globs, const std::vector<std::string>& writes) {
    try {
      const TextRecorder recorder(*checkpoint.model, globs, writes_of(writes), 10);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of({}, {"blocks.0.hook_resid_pre[-10]=1"}), "");
  EXPECT_THAT(error_of({}, {"blocks.0.hook_resid_pre[10]=1"}), testing::HasSubstr("out of range"));
  EXPECT_THAT(error_of({}, {"blocks.0.attn.hook_pattern[0,0,10]=1"}), testing::HasSubstr("out of range"));
  EXPECT_THAT(error_of({}, {"blocks.0.mlp.experts.0.hook_post[2]=1"}), testing::HasSubstr("all or not at all"));
  EXPECT_THAT(error_of({}, {"blocks.0.mlp.experts.0.hook_post[:,100000]=1"}), testing::HasSubstr("out of range"));
  EXPECT_THAT(error_of({}, {"hook_tokens[0]=1"}), testing::HasSubstr("ids"));
  EXPECT_THAT(error_of({"blocks.9.*"}, {}), testing::HasSubstr("no site of this model matches"));
}

TEST(RecordedBytes, GrowWithTheText) {
  const ModelConfig config = golden_checkpoint("gemma2").model->config();
  EXPECT_EQ(recorded_bytes(config, {"hook_embed"}, 7), 7 * 4 * config.d_model);
  EXPECT_EQ(recorded_bytes(config, {"blocks.0.attn.hook_pattern"}, 7), 4 * 7 * 7 * attention_of(config, 0)->n_heads);
  EXPECT_EQ(recorded_bytes(config, {}, 7), 0) << "none, not the default set";
}

}  // namespace
}  // namespace vitrine::test
