// Trainable models: initialization, copies, saving, and memory estimates.
#include "train/trainable.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/folder_writer.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/presets.h"
#include "model/count.h"
#include "support/figures.h"
#include "support/run.h"
#include "train/learner.h"
#include "train/memory.h"

namespace vitrine::test {
namespace {

struct Tiny {
  Json json;
  Family family;
  ModelConfig config;
};

Tiny tiny(const std::string& name) {
  const Json json = tiny_config(name, reference_figures()["models"][name]);
  const Family family = family_of(json, name);
  return {json, family, read_model_config(family, json, name)};
}

class TrainableOf : public testing::TestWithParam<std::string> {
 protected:
  ThreadPool pool_{2};
  ScratchFolder folder_;

  /// Saves a model and loads it again.
  Checkpoint round_trip(const Trainable& trainable, const Tiny& t, const std::string& tokenizer = "") {
    FolderWriter writer(folder_ / "saved");
    save_model(trainable, {t.family, t.json, tokenizer}, writer.file(""), pool_);
    writer.commit();
    return load_checkpoint(folder_ / "saved");
  }
};

TEST_P(TrainableOf, EqualsInitAndSurvivesSaving) {
  const Tiny t = tiny(GetParam());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::string path = folder_ / std::string(name_of(dtype));
    init_checkpoint(t.json, "test", path, dtype, 7, pool_);
    const Checkpoint written = load_checkpoint(path);
    const Trainable drawn = draw_trainable(t.config, dtype, {}, 7, pool_, default_kernels());
    const Trainable copied = copy_trainable(written.model, dtype, pool_, default_kernels());
    const std::vector<std::int32_t> ids = some_ids(*written.model, 9);
    const std::vector<float> logits = logits_of(*written.model, ids);
    EXPECT_TRUE(same_bits(logits_of(drawn.model(), ids), logits));
    EXPECT_TRUE(same_bits(logits_of(copied.model(), ids), logits));
    const Checkpoint saved = round_trip(drawn, t);
    EXPECT_TRUE(same_bits(logits_of(*saved.model, ids), logits));
    EXPECT_EQ(saved.model->config(), t.config);
  }
}

TEST_P(TrainableOf, ItsModelSeesUpdatesAndMastersKeepFullPrecision) {
  const Tiny t = tiny(GetParam());
  const Trainable f32 = draw_trainable(t.config, DType::f32, {}, 7, pool_, default_kernels());
  const Trainable bf16 = draw_trainable(t.config, DType::bf16, {}, 7, pool_, default_kernels());
  ASSERT_EQ(f32.params().size(), bf16.params().size());
  for (std::size_t i = 0; i < f32.params().size(); ++i) {
    const TrainParam& param = f32.params()[i];
    EXPECT_EQ(param.rounded, nullptr);
    EXPECT_EQ(std::memcmp(param.value, bf16.params()[i].value, static_cast<std::size_t>(param.count()) * 4), 0);
  }
  const std::vector<std::int32_t> ids = some_ids(f32.model(), 5);
  for (const Trainable* trainable : {&f32, &bf16}) {
    const std::vector<float> before = logits_of(trainable->model(), ids);
    for (const TrainParam& param : trainable->params()) {
      if (param.name == "ln_final.weight") std::fill_n(param.value, param.count(), 3.0f);
    }
    trainable->round_weights(pool_, default_kernels());
    EXPECT_FALSE(same_bits(logits_of(trainable->model(), ids), before));
  }
}

/// The mean −log p of random ids, each given its predecessors.
double first_loss(const Model& model) {
  const std::vector<std::int32_t> ids = some_ids(model, 64);
  const std::vector<float> logits = logits_of(model, ids);
  const auto vocab_size = static_cast<std::size_t>(model.config().vocab_size);
  double loss = 0;
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    double sum = 0;
    for (std::size_t i = 0; i < vocab_size; ++i) sum += std::exp(static_cast<double>(logits[t * vocab_size + i]));
    loss += std::log(sum) - static_cast<double>(logits[t * vocab_size + static_cast<std::size_t>(ids[t + 1])]);
  }
  return loss / static_cast<double>(ids.size() - 1);
}

TEST_P(TrainableOf, BeginsNearTheLossOfAUniformDistribution) {
  using Scheme = InitOptions::Scheme;
  const Tiny t = tiny(GetParam());
  for (const Scheme scheme : {Scheme::by_config, Scheme::glorot, Scheme::normal}) {
    InitOptions options{scheme, 0.02, {}};
    // If the head is tied and the embedding dominates the residual stream, a new model predicts the token it has just
    // read (by about √d nats with σ = 1/√d). With σ = 1/d it does not.
    if (t.config.head.tied && t.config.embedding.scale != 1)
      options.embedding_std = 1.0 / static_cast<double>(t.config.d_model);
    const Trainable drawn = draw_trainable(t.config, DType::f32, options, 7, pool_, default_kernels());
    const double above = first_loss(drawn.model()) - std::log(static_cast<double>(t.config.vocab_size));
    EXPECT_GE(above, -0.1);
    EXPECT_LE(above, 0.6);
  }
}

/// The expected loss of a model on unpredictable ids minus ln V: the mean of log Z minus the mean logit, minus ln V.
double expected_above_uniform(const ModelConfig& config, const InitOptions& options) {
  ThreadPool pool(2);
  const Trainable drawn = draw_trainable(config, DType::f32, options, 7, pool, default_kernels());
  constexpr std::int64_t kIds = 48;
  const std::vector<float> logits = logits_of(drawn.model(), some_ids(drawn.model(), kIds));
  const auto v = static_cast<std::size_t>(config.vocab_size);
  double loss = 0;
  for (std::size_t row = 0; row < logits.size(); row += v) {
    double sum = 0, mean = 0;
    for (std::size_t i = row; i < row + v; ++i) {
      sum += std::exp(static_cast<double>(logits[i]));
      mean += static_cast<double>(logits[i]) / static_cast<double>(v);
    }
    loss += (std::log(sum) - mean) / static_cast<double>(kIds);
  }
  return loss - std::log(static_cast<double>(v));
}

/// Gemma's embeddings are scaled and tied. σ = 1/√d gives logits of variance 1, so the loss is ln V + 0.5. It is higher
/// if the logit of the token just read, √d · cos(stream, embedding), is near ln V.
TEST(Trainable, ScaledAndTiedEmbeddingsBeginHalfANatAboveUniform) {
  const auto config = [](const std::string& preset, const Json& sizes) {
    Json json = preset_or_config(preset);
    set_config_values(json, sizes, preset);
    return read_model_config(family_of(json, preset), json, preset);
  };
  for (const std::string preset : {"gemma-2b", "gemma-2-2b", "gemma-3-1b"}) {
    SCOPED_TRACE(preset);
    const Json deep = {{"d_model", 64},  {"d_ff", 256},        {"n_heads", 4},     {"n_kv_heads", 1},
                       {"head_dim", 16}, {"vocab_size", 2000}, {"max_seq_len", 64}};
    EXPECT_NEAR(expected_above_uniform(config(preset, deep), {}), 0.5, 0.1);
    const Json wide = {{"d_model", 512}, {"d_ff", 512},    {"n_heads", 4},      {"n_kv_heads", 1},
                       {"n_layers", 2},  {"head_dim", 32}, {"vocab_size", 500}, {"max_seq_len", 64}};
    EXPECT_GT(expected_above_uniform(config(preset, wide), {}), 1)
        << "the model no longer predicts the token that it has read";
    InitOptions small;
    small.embedding_std = 1.0 / 512;
    EXPECT_NEAR(expected_above_uniform(config(preset, wide), small), 0, 0.1);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, TrainableOf, testing::ValuesIn(tiny_presets()), [](const auto& param_info) {
  std::string name = param_info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.' || c == '/'; }, '_');
  return name;
});

/// Golden checkpoints contain transposed, fused and half-precision tensors.
TEST(Trainable, CopiesEveryFamilyAsItIsStored) {
  ThreadPool pool(2);
  for (const std::string& name : golden_cases()) {
    const Checkpoint golden = golden_checkpoint(name);
    const Trainable copied = copy_trainable(golden.model, DType::f32, pool, default_kernels());
    const RunOptions f32{.compute = Compute::f32};
    EXPECT_TRUE(
        same_bits(logits_of(copied.model(), golden_ids(name), f32), logits_of(*golden.model, golden_ids(name), f32)))
        << name;
    std::int64_t n = 0;
    for (const TrainParam& param : copied.params()) {
      n += param.count();
      EXPECT_EQ(param.decays(), param.shape.rank() > 1 && !param.name.ends_with(".a_log"));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(param.value) % 64, 0U);
    }
    std::int64_t learned = 0;
    ModelParams all = empty_params(golden.model->config());
    for_each_param(golden.model->config(), all, [&](const Param&, const std::string& param, const Shape& shape) {
      if (!is_constant(golden.model->config(), param)) learned += shape.count();
    });
    EXPECT_EQ(n, learned) << name;
  }
}

TEST(Trainable, RefusesQuantizedWeights) {
  ThreadPool pool(1);
  const Trainable plain = draw_trainable(tiny("gpt2").config, DType::f32, {}, 1, pool, default_kernels());
  ModelParams params = plain.model().params();
  std::get<AttentionParams>(params.blocks[1].sublayers[0].what).wo.weight.view.dtype = DType::q8_0;
  const auto quantized = std::make_shared<const Model>(plain.model().config(), params,
                                                       std::vector<std::shared_ptr<const void>>{plain.shared_model()});
  try {
    copy_trainable(quantized, DType::f32, pool, default_kernels());
    FAIL() << "quantized weights were accepted";
  } catch (const Unsupported& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("blocks.1.attn.wo.weight"));
  }
  const Trainable others = copy_trainable(quantized, DType::f32, pool, default_kernels(),
                                          [](const std::string& name) { return name != "blocks.1.attn.wo.weight"; });
  EXPECT_EQ(others.params().size() + 1, plain.params().size());
  EXPECT_EQ(std::get<AttentionParams>(others.model().params().blocks[1].sublayers[0].what).wo.weight.view.data,
            std::get<AttentionParams>(params.blocks[1].sublayers[0].what).wo.weight.view.data);
  EXPECT_THROW(Trainable(tiny("gpt2").config, DType::f16), InternalError);
}

/// Trains one matrix. Its gradient has the same bits as when all parameters are trained. Other parameters have no
/// gradients and do not change.
TEST(Trainable, OnlyTrainedParametersHaveGradientsAndMoments) {
  const std::string name = "blocks.1.mlp.w_up.weight";
  ThreadPool pool(2);
  const Trainable base = draw_trainable(tiny("gpt2").config, DType::f32, {}, 3, pool, default_kernels());
  for (const TrainParam& param : base.params()) {
    if (param.name == name) std::fill_n(param.value, param.count(), 0.0f);  // a step with rate 1 makes it −gradient
  }
  Batch batch;
  batch.inputs = some_ids(base.model(), 24);
  batch.targets = some_ids(base.model(), 24, 2);
  batch.counts.assign(24, 1);
  batch.pieces = {{0, 8}, {8, 8}, {16, 8}};
  StepOptions options;
  options.micro_batches = 3;
  const OptimizerConfig sgd{.kind = OptimizerConfig::Kind::sgd, .weight_decay = 0, .momentum = 0, .max_norm = {}};
  std::vector<std::vector<float>> gradients;
  for (const IsTrainable& learns : {IsTrainable{}, IsTrainable{[&](const std::string& n) { return n == name; }}}) {
    const Trainable trainable = copy_trainable(base.shared_model(), DType::f32, pool, default_kernels(), learns);
    Optimizer optimizer(sgd, trainable.params());
    Learner learner(trainable, optimizer, options, pool, default_kernels(), nullptr);
    Learner::Step step = learner.forward_backward(batch, 0);
    learner.update(step, 1);
    EXPECT_EQ(step.skipped, "");
    for (const TrainParam& param : trainable.params()) {
      if (param.name == name) gradients.emplace_back(param.value, param.value + param.count());
    }
    if (!learns) continue;
    EXPECT_EQ(trainable.params().size(), 1U);
    EXPECT_EQ(optimizer.state(trainable.params()).size(), 1U);
    auto param = base.params().begin();
    for_each_param(trainable.model().config(), trainable.model().params(),
                   [&](const Param& p, const std::string& n, const Shape&) {
                     const bool is_shared = p.view.data == reinterpret_cast<const std::byte*>((param++)->value);
                     EXPECT_EQ(is_shared, n != name) << n;
                   });
  }
  ASSERT_EQ(gradients.size(), 2U);
  EXPECT_TRUE(same_bits(gradients[0], gradients[1]));
  EXPECT_TRUE(std::any_of(gradients[0].begin(), gradients[0].end(), [](float g) { return g != 0; }));
}

TEST(Trainable, SavesItsTokenizer) {
  ThreadPool pool(1);
  const ScratchFolder folder;
  const Tiny t = tiny("gpt2");
  const Trainable drawn = draw_trainable(t.config, DType::f32, {}, 7, pool, default_kernels());
  std::filesystem::create_directories(folder / "from");
  std::ofstream(folder / "from/vocab.json") << R"({"a": 0, "b": 1, "ab": 2})";
  std::ofstream(folder / "from/merges.txt") << "#version: 0.2\na b\n";
  std::ofstream(folder / "from/notes.txt") << "notes";
  for (const std::string from : {"from", "from/vocab.json", "from/merges.txt"}) {
    FolderWriter writer(folder / "saved");
    save_model(drawn, {t.family, t.json, folder / from}, writer.file(""), pool);
    writer.commit();
    EXPECT_TRUE(std::filesystem::exists(folder / "saved/vocab.json")) << from;
    EXPECT_TRUE(std::filesystem::exists(folder / "saved/merges.txt")) << from;
    EXPECT_FALSE(std::filesystem::exists(folder / "saved/notes.txt"));
  }
  // A tokenizer file with another name is saved under the standard name.
  std::ofstream(folder / "characters.json") << R"({"model": {"type": "BPE"}})";
  FolderWriter writer(folder / "other");
  save_model(drawn, {t.family, t.json, folder / "characters.json"}, writer.file(""), pool);
  writer.commit();
  EXPECT_TRUE(std::filesystem::exists(folder / "other/tokenizer.json"));
}

double part(const std::vector<MemoryPart>& parts, const std::string& name) {
  for (const MemoryPart& p : parts) {
    if (p.name == name) return p.bytes;
  }
  return 0;
}

TEST(TrainingMemory, CountsEachPart) {
  const ModelConfig config = tiny("gpt2").config;
  double n = 0;
  for (const TrainParam& param : trainable_params(config)) {
    n += static_cast<double>(round_up(param.count(), kParamAlignment));
  }
  TrainWorkload w{4, 8};
  ThreadPool pool(1);
  const std::vector<MemoryPart> f32 = training_memory(config, w, pool);
  EXPECT_EQ(part(f32, "parameters"), 4 * n);
  EXPECT_EQ(part(f32, "masters"), 0);
  EXPECT_EQ(part(f32, "gradients"), 4 * n);
  EXPECT_EQ(part(f32, "moments"), 8 * n);
  EXPECT_GT(part(f32, "activations"), 0);
  w.dtype = DType::bf16;
  w.optimizer = OptimizerConfig::Kind::sgd;
  const std::vector<MemoryPart> bf16 = training_memory(config, w, pool);
  EXPECT_EQ(part(bf16, "parameters"), 2 * n);
  EXPECT_EQ(part(bf16, "masters"), 4 * n);
  EXPECT_EQ(part(bf16, "moments"), 4 * n);
  w.recompute = true;
  EXPECT_LT(part(training_memory(config, w, pool), "activations"), part(bf16, "activations"));
  w.batch = 8;
  w.recompute = false;
  const double doubled = part(training_memory(config, w, pool), "activations");
  EXPECT_GT(doubled, 1.6 * part(bf16, "activations"));
  EXPECT_LT(doubled, 2.4 * part(bf16, "activations"));
  EXPECT_EQ(total_bytes(bf16), 14 * n + part(bf16, "activations") + part(bf16, "program"));
}

}  // namespace
}  // namespace vitrine::test
