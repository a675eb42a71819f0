// Training runs: changes that must not affect a bit, changes that may affect rounding only, and convergence.
#include "train/trainer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"
#include "data/shards.h"
#include "support/data.h"
#include "support/run.h"
#include "support/training.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

class TrainerOf : public testing::Test {
 protected:
  TrainerOf() { write_corpus(folder_ / "tokens", 23, 2000); }

  TinyRun tiny(const std::string& name, const std::string& train = "") const {
    TinyRun run;
    run.data = folder_ / "tokens";
    run.out = folder_ / name;
    run.train = train;
    return run;
  }
  void expect_same_run(const TinyRun& a, const TinyRun& b) const {
    EXPECT_EQ(metrics_of(a.out), metrics_of(b.out));
    for (const char* const file : {"model.safetensors", "trainer_state.safetensors"}) {
      EXPECT_TRUE(bytes_of(a.out + "/last/" + file) == bytes_of(b.out + "/last/" + file)) << b.out << " " << file;
    }
  }
  /// All values of the last checkpoint's parameters.
  static std::vector<float> values_of(const std::string& run) {
    std::vector<float> values;
    const SafetensorsFile file = SafetensorsFile::open(run + "/last/model.safetensors");
    for (const auto& [name, tensor] : file.tensors()) {
      const auto* const data = reinterpret_cast<const float*>(tensor.bytes.data());
      values.insert(values.end(), data, data + tensor.bytes.size() / sizeof(float));
    }
    return values;
  }

  const TempFolder folder_;
};

constexpr const char* kEverything = "dropout = 0.1\nlabel_smoothing = 0.05\nz_loss = 1e-3\n";

TEST_F(TrainerOf, AResumedRunIsBitIdenticalToAnUninterruptedOne) {
  for (const std::string dtype : {"f32", "bf16"}) {
    SCOPED_TRACE(dtype);
    const std::string train = std::string(kEverything) + "recompute = true\ndtype = \"" + dtype + "\"\n";
    TinyRun whole = tiny("whole-" + dtype, train), parts = tiny("parts-" + dtype, train);
    whole.micro_batches = parts.micro_batches = 2;
    train_tiny(whole);
    // Interrupts and resumes the run repeatedly, at different points of a step.
    const TrainConfig config = parse_train_config(parts.toml(), "test.toml");
    std::atomic<bool> stop = false;
    int stops = 0;
    for (bool is_done = false; !is_done && stops < 100;) {
      stop = false;
      TrainRun run;
      run.resume = stops > 0;
      run.build = "test";
      run.interrupt = &stop;
      int shown = 0;
      run.show = [&](const TrainProgress&) { stop = ++shown == 1 + stops % 3; };
      try {
        vitrine::train(config, run);
        is_done = true;
      } catch (const Interrupted&) {
        ++stops;
      }
    }
    EXPECT_GE(stops, 3);
    expect_same_run(whole, parts);
  }
}

/// Without a tokenizer, a resumed run needs nothing of the checkpoint that it began from.
TEST_F(TrainerOf, TheCheckpointOfAResumedRunMayBeDeleted) {
  TinyRun run = tiny("run");
  run.log = "save_every = 1\nkeep_last = 1\n";
  run.schedule = "";
  run.steps = 2;
  train_tiny(run);
  run.steps = 6;
  train_tiny(run, true);
  EXPECT_FALSE(fs::exists(run.out + "/checkpoints/step-000002"));
}

TEST_F(TrainerOf, ThreadsRecomputeAndTapsChangeNoBit) {
  const TinyRun plain = tiny("plain", kEverything);
  train_tiny(plain);
  const TinyRun threads = tiny("threads", kEverything);
  train_tiny(threads, false, 2);
  expect_same_run(plain, threads);
  const TinyRun again = tiny("again", std::string(kEverything) + "recompute = true\n");
  train_tiny(again);
  expect_same_run(plain, again);
  TinyRun tapped = tiny("tapped", kEverything);
  tapped.log += "taps_every = 2\ntaps = [\"blocks.*.hook_resid_post\", \"blocks.*.attn.hook_pattern\"]\n";
  train_tiny(tapped);
  expect_same_run(plain, tapped);
}

TEST_F(TrainerOf, MicroBatchesEqualTheBatch) {
  TinyRun whole = tiny("whole", "z_loss = 1e-3\nlabel_smoothing = 0.1\n");
  whole.steps = 4;
  train_tiny(whole);
  for (const int k : {2, 4}) {
    TinyRun parts = tiny("parts" + std::to_string(k), whole.train);
    parts.steps = 4;
    parts.micro_batches = k;
    train_tiny(parts);
    const std::vector<double> expected = losses_of(whole.out), losses = losses_of(parts.out);
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-6 * expected[i]);
    const std::vector<float> a = values_of(whole.out), b = values_of(parts.out);
    ASSERT_EQ(a.size(), b.size());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(static_cast<double>(a[i] - b[i]), 2);
      norm += std::pow(static_cast<double>(a[i]), 2);
    }
    EXPECT_LE(std::sqrt(difference), 1e-6 * std::sqrt(norm)) << k;
  }
}

/// The correction of the second of two layers, after one step.
TEST_F(TrainerOf, CorrectionsMoveTowardsEvenChoices) {
  const auto corrections = [&](const std::string& name, const std::string& train, int micro_batches) {
    TinyRun run = tiny(name, train);
    run.model += "n_experts = 4\ntop_k = 1\nrouter_score = \"sigmoid\"\nrouter_correction = true\n";
    run.steps = 1;
    run.schedule = "";
    run.micro_batches = micro_batches;
    run.log = "taps_every = 1\ntaps = [\"blocks.1.mlp.hook_expert_indices\"]\n";
    train_tiny(run);
    const SafetensorsFile file = SafetensorsFile::open(run.out + "/last/model.safetensors");
    const auto* const data =
        reinterpret_cast<const float*>(file.tensors().at("blocks.1.mlp.correction.bias").bytes.data());
    return std::vector<float>(data, data + 4);
  };
  EXPECT_EQ(corrections("still", "", 1), std::vector<float>(4, 0.0f));
  const std::vector<float> moved = corrections("moved", "router_bias_rate = 0.25\nrecompute = true\n", 1);
  std::vector<int> choices(4);
  const SafetensorsFile taps = SafetensorsFile::open(folder_ / "moved/taps/step-000001.safetensors");
  for (const auto& [name, tensor] : taps.tensors()) {
    const auto* const data = reinterpret_cast<const float*>(tensor.bytes.data());
    for (std::size_t i = 0; i < tensor.bytes.size() / sizeof(float); ++i) ++choices[static_cast<std::size_t>(data[i])];
  }
  ASSERT_EQ(std::accumulate(choices.begin(), choices.end(), 0), 4 * 12);
  for (std::size_t e = 0; e < 4; ++e) EXPECT_EQ(moved[e], choices[e] < 12 ? 0.25f : choices[e] > 12 ? -0.25f : 0.0f);
  EXPECT_NE(moved, std::vector<float>(4, 0.0f));
  EXPECT_EQ(moved, corrections("parts", "router_bias_rate = 0.25\n", 4));
}

bool has_states(const ModelConfig& config) {
  const std::vector<CacheLayerConfig> layers = cache_layers(config);
  return std::any_of(layers.begin(), layers.end(), [](const CacheLayerConfig& layer) { return !layer.states.empty(); });
}

TEST_F(TrainerOf, TenStepsOfAdamWEqualPyTorch) {
  const Json golden = Json::parse(bytes_of(std::string(VITRINE_SOURCE_DIR) + "/tests/train/adamw_steps.json"));
  for (const auto& [name, model] : golden["models"].items()) {
    SCOPED_TRACE(name);
    const Checkpoint begin = golden_checkpoint(name);
    TinyRun run = tiny(name);
    run.model = "[model]\nfrom = \"" + goldens() + "/" + name + "\"\n";
    run.data = folder_ / ("ids-" + name);
    run.data_more = "";
    write_corpus(run.data, begin.model->config().vocab_size, model["ids"].get<std::vector<std::int32_t>>());
    run.batch = 1;
    run.seq_len = golden["length"];
    run.steps = 11;
    run.lr = model["lr"];
    run.schedule = "name = \"constant\"\n";
    run.log = "";
    train_tiny(run);
    const std::vector<double> losses = losses_of(run.out);
    const auto expected = model["losses"].get<std::vector<double>>();
    ASSERT_EQ(losses.size(), expected.size());
    // of the float32 sums of both; a scan sums in another order than forms by chunks
    const double tolerance = has_states(begin.model->config())        ? 3e-4
                             : max_experts(begin.model->config()) > 0 ? 1e-4
                                                                      : 1e-5;
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], tolerance) << "step " << i;
  }
}

TEST_F(TrainerOf, OneBatchIsMemorized) {
  const std::string tokens = folder_ / "one";
  write_corpus(tokens, 23, 13);
  TinyRun run = tiny("heart");
  run.data = tokens;
  run.data_more = "";
  run.batch = 1;
  run.steps = 150;
  run.log = "every = 50\n";
  run.more = "[optimizer]\nweight_decay = 0.0\n";
  EXPECT_LT(train_tiny(run).loss, 0.01);
}

TEST_F(TrainerOf, TheFirstLossIsNearUniform) {
  const std::string family = R"([model.config]
model_type = "vitrine"
d_model = 64
n_layers = 3
n_heads = 4
d_ff = 128
vocab_size = 500
max_seq_len = 16
)";
  write_corpus(folder_ / "many", 500, 3000);
  const std::vector<std::string> models = {
      "[model]\ninit = \"gpt2\"\n" + family + "positions = \"learned\"\nnorm = \"layer\"\ntied = true\n",
      "[model]\ninit = \"glorot\"\n" + family + "tied = false\n",
      "[model]\ninit = \"glorot\"\n" + family + "tied = true\n",
      "[model]\n" + family + "tied = false\n",
      "[model]\n" + family + "tied = true\n",
  };
  for (std::size_t i = 0; i < models.size(); ++i) {
    TinyRun run = tiny("first" + std::to_string(i));
    run.model = models[i];
    run.data = folder_ / "many";
    run.steps = 1;
    run.schedule = "";
    const double loss = train_tiny(run).loss;
    EXPECT_GE(loss, std::log(500.0) - 0.1) << models[i];
    EXPECT_LE(loss, std::log(500.0) + 0.6) << models[i];
  }
}

TEST_F(TrainerOf, ANonFiniteStepChangesNothingAndIsReported) {
  TinyRun run = tiny("wild");
  run.steps = 60;
  run.lr = 1e9;
  run.log = "validate_every = 5\nsave_every = 100\n";
  run.more = "[clip]\noff = true\n[optimizer]\nname = \"sgd\"\n";
  std::vector<std::string> messages;
  const std::string message = message_of<BadInput>([&] { train_tiny(run, false, 1, &messages); });
  EXPECT_THAT(message, testing::HasSubstr("50 steps in a row changed nothing"));
  EXPECT_THAT(messages,
              testing::Contains(testing::AllOf(testing::HasSubstr("changed nothing"), testing::HasSubstr("step "))));
  EXPECT_THAT(messages, testing::Contains(testing::HasSubstr("no validation")));
  for (const float value : values_of(run.out)) ASSERT_TRUE(std::isfinite(value));
  const std::vector<Json> lines = metrics_of(run.out);
  EXPECT_EQ(lines.back()["skipped"], 1);
}

/// If documents are masked, one-token documents without a document token have no targets.
TEST_F(TrainerOf, ABatchWithoutTargetsIsSkipped) {
  TinyRun run = tiny("masked");
  run.data = folder_ / "short-documents";
  ShardWriter writer(run.data, {23, 1, std::nullopt}, 1 << 20);
  for (std::int32_t i = 0; i < 400; ++i) {
    writer.begin_document();
    const std::vector<std::int32_t> ids(i == 200 ? 8 : 1, i % 23);
    writer.write(ids, static_cast<std::int64_t>(ids.size()));
  }
  writer.finish();
  run.data_more = "mask_documents = true\n";
  run.batch = 1;
  run.seq_len = 4;
  run.steps = 300;
  run.log = "";
  std::vector<std::string> messages;
  train_tiny(run, false, 1, &messages);
  EXPECT_THAT(messages, testing::Contains(testing::HasSubstr("changed nothing: no target of its batch counts")));
  int skipped = 0;
  for (const Json& line : metrics_of(run.out)) {
    EXPECT_EQ(line.contains("skipped"), line["loss"].is_null());
    skipped += line.contains("skipped") ? 1 : 0;
  }
  EXPECT_GT(skipped, 250);
  EXPECT_LT(skipped, 300);
  for (const float value : values_of(run.out)) ASSERT_TRUE(std::isfinite(value));
}

TEST_F(TrainerOf, AValidationCorpusShorterThanASampleIsRefused) {
  write_corpus(folder_ / "short", 23, 12);
  TinyRun run = tiny("refused");
  run.data_more = "validation = \"" + (folder_ / "short") + "\"\n";
  EXPECT_THAT(message_of<BadInput>([&] { train_tiny(run); }),
              testing::HasSubstr("expected at least 13 tokens to validate on"));
  EXPECT_FALSE(fs::exists(run.out));
  write_corpus(folder_ / "enough", 23, 13);
  run.data_more = "validation = \"" + (folder_ / "enough") + "\"\n";
  EXPECT_TRUE(std::isfinite(train_tiny(run).val_loss.value()));
}

TEST_F(TrainerOf, AnErrorSavesTheLastStepFirst) {
  const TinyRun whole = tiny("whole", kEverything), parts = tiny("parts", kEverything);
  train_tiny(whole);
  TrainRun run;
  run.build = "test";
  run.show = [](const TrainProgress& p) {
    if (p.step == 5) throw BadInput("paper", "there is none");
  };
  EXPECT_EQ(message_of<BadInput>([&] { vitrine::train(parse_train_config(parts.toml(), "test.toml"), run); }),
            "[paper] there is none");
  EXPECT_EQ(Json::parse(bytes_of(parts.out + "/last/trainer_state.json"))["step"], 5);
  train_tiny(parts, true);
  expect_same_run(whole, parts);
}

TEST_F(TrainerOf, WritesTapsOfSteps) {
  std::vector<std::string> files;
  for (const bool recompute : {false, true}) {
    TinyRun run =
        tiny(recompute ? "again" : "once", recompute ? "recompute = true\ndropout = 0.1\n" : "dropout = 0.1\n");
    run.log += "taps_every = 4\ntaps = [\"blocks.*.hook_resid_post\", \"blocks.1.attn.hook_pattern\"]\n";
    run.log += "writes = [\"blocks.0.hook_resid_post[:,3]=0.5\"]\n";
    train_tiny(run);
    EXPECT_FALSE(fs::exists(run.out + "/taps/step-000001.safetensors"));
    EXPECT_TRUE(fs::exists(run.out + "/taps/step-000008.safetensors"));
    files.push_back(bytes_of(run.out + "/taps/step-000004.safetensors"));
    const SafetensorsFile file = SafetensorsFile::open(run.out + "/taps/step-000004.safetensors");
    for (const char* const name :
         {"blocks.0.hook_resid_post", "blocks.0.hook_resid_post_grad", "blocks.1.hook_resid_post_grad",
          "blocks.1.attn.hook_pattern", "blocks.1.attn.hook_pattern.1", "blocks.1.attn.hook_pattern_grad"}) {
      EXPECT_TRUE(file.tensors().contains(name)) << name;
    }
    const StoredTensor& stream = file.tensors().at("blocks.0.hook_resid_post");
    const auto* const values = reinterpret_cast<const float*>(stream.bytes.data());
    EXPECT_EQ(values[3], 0.5f);
    EXPECT_EQ(values[16 + 3], 0.5f);
  }
  EXPECT_TRUE(files[0] == files[1]) << "recompute changed the taps";
}

/// The experts alone, 256 in each of 4 layers, have 5,120 sites, each with a gradient.
TEST_F(TrainerOf, WritesTapsOfManyExperts) {
  TinyRun run = tiny("experts");
  run.model = R"(
[model.config]
model_type = "vitrine"
d_model = 8
n_layers = 4
n_heads = 2
d_ff = 4
n_experts = 256
top_k = 2
vocab_size = 23
max_seq_len = 16
)";
  run.steps = 1;
  run.schedule = "";
  run.log = "taps_every = 1\ntaps = [\"*\"]\n";
  train_tiny(run);
  const std::string path = run.out + "/taps/step-000001.safetensors";
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes_of(path).data(), sizeof header_bytes);
  EXPECT_LT(header_bytes, 4'000'000U);
  EXPECT_GT(SafetensorsFile::open(path).tensors().size(), 500U);
}

TEST_F(TrainerOf, WritesApplyInEveryStep) {
  TinyRun plain = tiny("plain"), written = tiny("written");
  written.log += "writes = [\"hook_embed=0\"]\n";
  train_tiny(plain);
  train_tiny(written);
  const std::vector<double> a = losses_of(plain.out), b = losses_of(written.out);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i], b[i]) << i;
}

TEST_F(TrainerOf, UnknownSitesAreReportedAfterTheFirstStep) {
  for (const std::string line :
       {"taps_every = 1000\ntaps = [\"blocks.7.hook_resid_post\"]\n", "writes = [\"blocks.7.hook_resid_post=0\"]\n"}) {
    TinyRun run = tiny("none");
    run.log += line;
    EXPECT_THAT(message_of<BadInput>([&] { train_tiny(run); }), testing::HasSubstr("no site of this model"));
    EXPECT_FALSE(fs::exists(run.out + "/last")) << "an unknown site must stop the first step";
  }
}

}  // namespace
}  // namespace vitrine::test
