// Training of adapters: PyTorch's losses, what must not affect a bit, what is written, and what is refused.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/init.h"
#include "checkpoint/safetensors.h"
#include "data/shards.h"
#include "support/data.h"
#include "support/run.h"
#include "support/training.h"
#include "train/learner.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kAdapter = "adapter_model.safetensors";
constexpr const char* kEverything = "[lora]\nrank = 4\ndropout = 0.2\n";

class AdapterTraining : public testing::Test {
 protected:
  AdapterTraining() {
    const Json llama = {{"model_type", "llama"},    {"vocab_size", 23},
                        {"hidden_size", 32},        {"intermediate_size", 64},
                        {"num_hidden_layers", 3},   {"num_attention_heads", 2},
                        {"num_key_value_heads", 1}, {"max_position_embeddings", 32},
                        {"rms_norm_eps", 1e-5},     {"tie_word_embeddings", true}};
    init_checkpoint(llama, "test", base_, DType::f32, 5, pool_);
    write_corpus(folder_ / "tokens", 23, 2000);
  }

  TinyRun run(const std::string& name, const std::string& lora, const std::string& train = "") const {
    TinyRun run;
    run.model = from(base_);
    run.data = folder_ / "tokens";
    run.out = folder_ / name;
    run.more = lora;
    run.train = train;
    return run;
  }
  static std::string from(const std::string& model) { return "[model]\nfrom = \"" + model + "\"\n"; }
  static std::string last(const TinyRun& run, const std::string& file) { return bytes_of(run.out + "/last/" + file); }
  static void expect_same(const TinyRun& a, const TinyRun& b) {
    EXPECT_EQ(metrics_of(a.out), metrics_of(b.out));
    for (const char* const file : {kAdapter, "trainer_state.safetensors"}) {
      EXPECT_TRUE(last(a, file) == last(b, file)) << b.out << " " << file;
    }
  }
  std::string refusal(const std::string& lora) const {
    return message_of<BadInput>([&] { train_tiny(run("refused", lora)); });
  }

  const TempFolder folder_;
  const std::string base_ = folder_ / "base";
  ThreadPool pool_{2};
};

TEST_F(AdapterTraining, WritesThePeftFolderAlone) {
  const std::string before = bytes_of(base_ + "/model.safetensors");
  TinyRun trained = run("run", "[lora]\nrank = 4\ntargets = [\"q\", \"down\"]\n");
  trained.steps = 60;
  train_tiny(trained);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(trained.out + "/last/")) files.insert(entry.path().filename());
  EXPECT_EQ(files, (std::set<std::string>{"adapter_config.json", kAdapter, "trainer_state.json",
                                          "trainer_state.safetensors"}));
  EXPECT_TRUE(bytes_of(base_ + "/model.safetensors") == before);
  const std::vector<double> losses = losses_of(trained.out);
  EXPECT_LT(losses.back(), losses.front());
  std::set<std::string> modules;
  const SafetensorsFile file = SafetensorsFile::open(trained.out + "/last/" + kAdapter);
  for (const auto& [name, tensor] : file.tensors()) modules.insert(name.substr(0, name.find(".lora_")));
  EXPECT_EQ(modules.size(), 6U);
  EXPECT_TRUE(modules.contains("base_model.model.model.layers.2.self_attn.q_proj"));
  // moments of the adapter's matrices, and of nothing else
  EXPECT_EQ(SafetensorsFile::open(trained.out + "/last/trainer_state.safetensors").tensors().size(),
            2 * file.tensors().size());
}

TEST_F(AdapterTraining, AResumedRunIsBitIdenticalToAnUninterruptedOne) {
  TinyRun whole = run("whole", kEverything, "recompute = true\n");
  TinyRun parts = run("parts", kEverything, "recompute = true\n");
  whole.micro_batches = parts.micro_batches = 2;
  train_tiny(whole);
  int stops = 0;
  for (bool is_done = false; !is_done && stops < 100;) {
    std::atomic<bool> stop = false;
    TrainRun of;
    of.resume = stops > 0;
    of.build = "test";
    of.interrupt = &stop;
    int shown = 0;
    of.show = [&](const TrainProgress&) { stop = ++shown == 1 + stops % 3; };
    try {
      train(parse_train_config(parts.toml(), "test.toml"), of);
      is_done = true;
    } catch (const Interrupted&) {
      ++stops;
    }
  }
  EXPECT_GE(stops, 3);
  expect_same(whole, parts);
}

/// Taps switch the tape on in all blocks; without them it begins at the lowest block with an adapter.
TEST_F(AdapterTraining, ThreadsRecomputeAndTapsChangeNoBit) {
  for (const std::string lora : {kEverything, "[lora]\nrank = 4\nlayers = [2]\n"}) {
    const std::string name = std::to_string(lora.size());
    const TinyRun plain = run("plain" + name, lora), threads = run("threads" + name, lora);
    train_tiny(plain);
    train_tiny(threads, false, 2);
    expect_same(plain, threads);
    const TinyRun again = run("again" + name, lora, "recompute = true\n");
    train_tiny(again);
    expect_same(plain, again);
    TinyRun tapped = run("tapped" + name, lora);
    tapped.log += "taps_every = 2\ntaps = [\"*\"]\n";
    train_tiny(tapped);
    expect_same(plain, tapped);
  }
}

/// Experts, as parameters: of a folder with a tensor for each expert, and of transposed tensors of all.
TEST_F(AdapterTraining, Experts) {
  for (const char* const golden : {"mixtral", "llama4", "gpt_oss"}) {
    SCOPED_TRACE(golden);
    TinyRun trained = run(golden, "[lora]\nrank = 2\ntargets = [\"gate\", \"down\"]\n");
    trained.model = from(goldens() + "/" + golden);
    trained.steps = 30;
    train_tiny(trained);
    const std::vector<double> losses = losses_of(trained.out);
    EXPECT_LT(losses.back(), losses.front());
    const SafetensorsFile file = SafetensorsFile::open(trained.out + "/last/" + kAdapter);
    std::set<std::string> names;
    for (const auto& [name, tensor] : file.tensors()) names.insert(name.substr(name.find("layers.")));
    const std::string module = std::string(golden) == "llama4" ? "layers.0.feed_forward" : "layers.0.mlp";
    EXPECT_TRUE(names.contains(module + ".experts.base_layer.lora_A.weight"));
    EXPECT_TRUE(names.contains(module + ".experts.lora_B.weight"));
    TinyRun more = run(std::string(golden) + "_more", "[lora]\nfrom = \"" + trained.out + "/last\"\n");
    more.model = trained.model;
    train_tiny(more);
    EXPECT_LT(losses_of(more.out).front(), losses.front());
    const TinyRun threads = [&] {
      TinyRun same = trained;
      same.out += "_threads";
      return same;
    }();
    train_tiny(threads, false, 2);
    expect_same(trained, threads);
  }
}

/// The model's config gives the balancing loss with which transformers trains it; the run's own comes first.
TEST_F(AdapterTraining, TheBalancingLossOfTheModel) {
  const auto trained = [&](const std::string& name, const Json& changes, const std::string& train) {
    const std::string model = folder_ / ("model_" + name);
    fs::copy(goldens() + "/mixtral", model);
    Json config = read_json_file(model + "/config.json");
    config.update(changes);
    write_file(model + "/config.json", config.dump());
    TinyRun of = run(name, "[lora]\nrank = 2\ntargets = [\"mlp.gate\", \"q\"]\n", train);
    of.model = from(model);
    train_tiny(of);
    return losses_of(of.out);
  };
  const std::string by_hand = "balance_loss = 0.05\nbalance = \"hugging_face\"\n";
  const Json with = {{"output_router_logits", true}, {"router_aux_loss_coef", 0.05}};
  const std::vector<double> none = trained("none", {{"router_aux_loss_coef", 0.05}}, "");
  EXPECT_EQ(trained("usual", with, ""), trained("by_hand", Json::object(), by_hand));
  EXPECT_NE(trained("with", with, ""), none);
  EXPECT_EQ(trained("off", with, "balance_loss = 0\n"), none);
  EXPECT_EQ(trained("default", {{"output_router_logits", true}, {"router_aux_loss_coef", nullptr}}, ""),
            trained("by_default", Json::object(), "balance_loss = 0.001\nbalance = \"hugging_face\"\n"));
}

TEST_F(AdapterTraining, MicroBatchesEqualTheBatch) {
  const TinyRun whole = run("whole", "[lora]\nrank = 4\n");
  train_tiny(whole);
  for (const int k : {2, 4}) {
    TinyRun parts = run("parts" + std::to_string(k), "[lora]\nrank = 4\n");
    parts.micro_batches = k;
    train_tiny(parts);
    const std::vector<double> expected = losses_of(whole.out), losses = losses_of(parts.out);
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5) << i;
  }
}

/// In training of whole models, too: the head is computed for the rows that count, or, for the tap, for all.
TEST_F(AdapterTraining, RowsThatDoNotCountChangeNoBit) {
  const std::string tokens = folder_ / "documents";
  ShardWriter writer(tokens, {23, 1, std::nullopt}, 1 << 20);
  for (std::int32_t i = 0; i < 300; ++i) {
    writer.begin_document();
    const std::vector<std::int32_t> ids = {i % 23, i % 7, i % 5};
    writer.write(ids, 3);
  }
  writer.finish();
  for (const bool is_adapter : {true, false}) {
    std::vector<TinyRun> runs;
    for (const bool taps : {false, true}) {
      TinyRun of = run((is_adapter ? "adapter" : "model") + std::to_string(taps), is_adapter ? kEverything : "");
      of.data = tokens;
      of.data_more = "mask_documents = true\nvalidation_fraction = 0.2\n";
      if (taps) of.log += "taps_every = 1\ntaps = [\"hook_logits\"]\n";
      train_tiny(of);
      runs.push_back(of);
    }
    EXPECT_EQ(metrics_of(runs[0].out), metrics_of(runs[1].out));
    const char* const file = is_adapter ? kAdapter : "model.safetensors";
    EXPECT_TRUE(last(runs[0], file) == last(runs[1], file)) << is_adapter;
  }
}

/// A quantized base, and the same weights dequantized.
TEST_F(AdapterTraining, AQuantizedBaseHasTheBitsOfItsDequantizedWeights) {
  const Checkpoint base = load_checkpoint(base_);
  for (const DType dtype : {DType::q8_0, DType::q4_0}) {
    const std::string name(name_of(dtype));
    const std::string blocks = folder_ / (name + ".gguf"), floats = folder_ / (name + ".f32.gguf");
    write_gguf(blocks, base, dtype, {}, pool_);
    write_gguf(floats, load_checkpoint(blocks), DType::f32, {}, pool_);
    TinyRun quantized = run(name, kEverything), dequantized = run(name + ".f32", kEverything);
    quantized.model = from(blocks);
    dequantized.model = from(floats);
    train_tiny(quantized);
    train_tiny(dequantized);
    expect_same(quantized, dequantized);
  }
}

TEST_F(AdapterTraining, GoesOnFromAnAdapter) {
  const TinyRun first = run("first", "[lora]\nrank = 4\nscaling = \"rslora\"\nlayers = [1]\n");
  train_tiny(first);
  const std::string from = "[lora]\nfrom = \"" + first.out + "/last\"\n";
  const TinyRun second = run("second", from);
  train_tiny(second);
  EXPECT_LT(losses_of(second.out).front(), losses_of(first.out).front());
  const Json config = Json::parse(last(second, "adapter_config.json"));
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["use_rslora"], true);
  train_tiny(run("same", from + "rank = 4\nalpha = 8\nscaling = \"rslora\"\ntargets = \"all\"\nlayers = [1]\n"));
  EXPECT_THAT(refusal(from + "rank = 5\n"), HasSubstr("[lora.rank] expected 4"));
  EXPECT_THAT(refusal(from + "alpha = 9\n"), HasSubstr("[lora.alpha] expected 8"));
  EXPECT_THAT(refusal(from + "scaling = \"standard\"\n"), HasSubstr("[lora.scaling] expected \"rslora\""));
  EXPECT_THAT(refusal(from + "targets = [\"q\"]\nlayers = [1]\n"),
              HasSubstr("[lora.targets] the adapter also changes"));
  EXPECT_THAT(refusal(from + "targets = \"all\"\n"), HasSubstr("[lora.targets] the adapter does not change"));
}

TEST_F(AdapterTraining, NamesTheKeyOfWhatItRefuses) {
  EXPECT_THAT(refusal("[lora]\nrank = 0\n"), HasSubstr("lora.rank: expected a whole number from 1"));
  EXPECT_THAT(refusal("[lora]\nrank = 17\n"), HasSubstr("[lora.rank] expected at most 16, a side of"));
  EXPECT_THAT(refusal("[lora]\ntargets = [\"q_porj\"]\n"),
              HasSubstr("[lora.targets] the model has no linear map \"q_porj\"; did you mean q_proj?"));
  EXPECT_THAT(refusal("[lora]\ntargets = []\n"), HasSubstr("lora.targets: expected at least one target"));
  EXPECT_THAT(refusal("[lora]\ntargets = \"some\"\n"), HasSubstr("lora.targets: expected \"all\" or a list"));
  EXPECT_THAT(refusal("[lora]\nlayers = [3]\n"), HasSubstr("[lora.layers] expected layers from 0 to 2, got 3"));
  EXPECT_THAT(refusal("[lora]\nscaling = \"rs\"\n"), HasSubstr("lora.scaling: expected standard, rslora"));
  EXPECT_THAT(refusal("[lora]\nrnak = 4\n"), HasSubstr("did you mean rank?"));
  EXPECT_FALSE(fs::exists(folder_ / "refused"));
  TinyRun fresh = run("refused", "[lora]\nrank = 4\n");
  fresh.model = TinyRun().model;
  EXPECT_THAT(message_of<BadInput>([&] { train_tiny(fresh); }), HasSubstr("model.from"));
  EXPECT_THAT(message_of<BadInput>([&] { train_tiny(run("refused", kEverything, "dtype = \"bf16\"\n")); }),
              HasSubstr("train.dtype: expected f32"));
}

TEST_F(AdapterTraining, AChangedAdapterIsNotResumed) {
  TinyRun changed = run("run", "[lora]\nrank = 4\n");
  train_tiny(changed);
  changed.more = "[lora]\nrank = 4\nlayers = [0]\n";
  EXPECT_THAT(message_of<BadInput>([&] { train_tiny(changed, true); }), HasSubstr("lora was {"));
}

/// The losses and norms of every step in float64, by PyTorch and PEFT: batches of three conversations.
class TuningCurve : public testing::TestWithParam<const char*> {};

TEST_P(TuningCurve, IsPyTorchs) {
  const std::string folder = outside_data("tuning/curves");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no tuning/curves";
  const Json expected = Json::parse(bytes_of(folder + "/expected.json"));
  const Json& curve = expected["curves"][GetParam()];
  const Checkpoint base = load_checkpoint(folder + "/base");
  ThreadPool pool(2);
  const Trainable trainable = std::string_view(GetParam()) == "sft"
                                  ? Trainable(base, writable_copy(*load_adapter(folder + "/start", base, pool)))
                                  : copy_trainable(base.model, DType::f32, pool, default_kernels());
  OptimizerConfig adamw;
  adamw.beta2 = 0.999;
  adamw.weight_decay = 0;
  Optimizer optimizer(adamw, trainable.params());
  const StepOptions options;
  Learner learner(trainable, optimizer, options, pool, default_kernels(), nullptr);
  const Json& samples = expected["samples"];
  for (std::size_t step = 0; step < curve.size(); ++step) {
    Batch batch;
    for (std::size_t i = 0; i < 3; ++i) {
      const Json& sample = samples[(3 * step + i) % samples.size()];
      const auto ids = sample["ids"].get<std::vector<std::int32_t>>();
      const auto n = static_cast<std::int64_t>(ids.size());
      batch.pieces.push_back({static_cast<std::int64_t>(batch.inputs.size()), n});
      batch.inputs.insert(batch.inputs.end(), ids.begin(), ids.end());
      for (std::size_t t = 1; t <= ids.size(); ++t) {
        batch.targets.push_back(t < ids.size() ? ids[t] : 0);
        batch.counts.push_back(t < ids.size() && sample["learned"][t] == 1 ? 1 : 0);
      }
    }
    Learner::Step made = learner.forward_backward(batch, static_cast<std::int64_t>(step));
    learner.update(made, 2e-3);
    EXPECT_NEAR(made.loss, curve[step]["loss"].get<double>(), 3e-5) << step;
    EXPECT_NEAR(made.grad_norm / curve[step]["grad_norm"].get<double>(), 1, 1e-4) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Curves, TuningCurve, testing::Values("sft", "sft_full"));

}  // namespace
}  // namespace vitrine::test
