// The library's interface: taps, gradients, tensors in memory, steps of a text and of a training run.
#include <sys/wait.h>

#include <cmath>
#include <cstring>

#include "base/json.h"
#include "base/temp_folder.h"
#include "checkpoint/gradients_file.h"
#include "checkpoint/safetensors.h"
#include "support/data.h"
#include "support/run.h"
#include "support/training.h"
#include "vitrine/vitrine.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

LanguageModel golden(const std::string& name, int threads = 1) {
  return LanguageModel::open(goldens() + "/" + name, {.threads = threads});
}

/// A tap that adds to the values seen, and sets them to 0 if asked to.
SiteTap tap_of(std::vector<NamedValue>& seen, bool silences) {
  return [&seen, silences](const std::string& name, std::span<const std::int64_t> shape, std::span<const float> value,
                           std::span<float> replacement) {
    seen.push_back({name, {shape.begin(), shape.end()}, {value.begin(), value.end()}});
    if (silences) std::fill(replacement.begin(), replacement.end(), 0.0F);
    return silences;
  };
}

void expect_equal(const std::vector<NamedValue>& a, const std::vector<NamedValue>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(a[i].shape, b[i].shape) << a[i].name;
    EXPECT_TRUE(same_bits(a[i].values, b[i].values)) << a[i].name;
  }
}

TEST(LibraryValues, ATapSeesValuesInPlaceAndReplacesThem) {
  const LanguageModel model = golden("gemma2");
  const Ids ids = golden_ids("gemma2");
  std::vector<NamedValue> seen;
  const auto plain = model.trace(ids, {.watch = {.tap = tap_of(seen, false)}});
  expect_equal(seen, plain);
  expect_equal(plain, model.trace(ids));

  seen.clear();
  const std::string site = "blocks.0.attn.hook_z";
  const Watch watch{.sites = {site}, .tap = tap_of(seen, true)};
  expect_equal(model.trace(ids, {.watch = watch}), model.trace(ids, {.writes = {site + "=0"}}));
  EXPECT_EQ(seen.size(), 1U);
  // A write comes first, and a replacement ends the gradient as a write does.
  expect_equal(model.trace(ids, {.writes = {site + "[2]=5"}, .watch = watch, .gradients = true}),
               model.trace(ids, {.writes = {site + "=0"}, .gradients = true}));
  EXPECT_THROW(model.trace(ids, {.watch = {.sites = {"nope"}, .tap = tap_of(seen, false)}}), BadInput);
  Watch both = watch;
  both.function = [](const std::string&, std::span<float>, std::span<const std::int64_t>) {};
  EXPECT_THROW(model.trace(ids, {.watch = both}), BadInput);
}

TEST(LibraryValues, UnchangedElementsPassTheirGradient) {
  const LanguageModel model = golden("llama_mha");
  const Ids ids = golden_ids("llama_mha");
  const SiteTap tap = [](const std::string&, std::span<const std::int64_t> shape, std::span<const float> value,
                         std::span<float> replacement) {
    std::copy(value.begin(), value.end(), replacement.begin());
    std::fill_n(replacement.begin() + 2 * shape[1], shape[1], 0.0F);  // row 2
    return true;
  };
  const std::string site = "blocks.0.hook_resid_post";
  expect_equal(model.trace(ids, {.watch = {.sites = {site}, .tap = tap}, .gradients = true}),
               model.trace(ids, {.writes = {site + "[2]=0"}, .gradients = true}));
}

TEST(LibraryValues, GradientsAreThoseOfTheProgram) {
  for (const char* name : {"gpt2", "qwen3_moe", "gemma2_f16"}) {
    const LanguageModel model = golden(name, 2);
    const Checkpoint checkpoint = golden_checkpoint(name);
    const Ids ids = golden_ids(name);
    std::map<std::string, NamedValue> found;
    const double loss = model.grad(ids, [&](NamedValue g) { found[g.name] = std::move(g); });
    EXPECT_GT(loss, 0);
    const auto state = model.state();
    for (const StateTensor& tensor : state) {
      if (!found.contains(tensor.name)) continue;  // a buffer, or the copy of a tied weight
      EXPECT_EQ(found.at(tensor.name).shape, tensor.shape) << tensor.name;
    }
    EXPECT_GT(found.size(), state.size() / 2);
    EXPECT_THROW(model.grad(Ids{1}, [](const NamedValue&) {}), BadInput);
  }
  EXPECT_THROW(LanguageModel::open(goldens() + "/gpt2", {.kv_types = KvType::int8}).grad(Ids{1, 2}, {}), Unsupported);
}

TEST(LibraryValues, PairsHaveGradientsAndBeams) {
  for (const char* name : {"pairs/bart", "pairs/t5", "pairs/own_lstm"}) {
    const LanguageModel model = golden(name, 2);
    const Ids source{5, 9, 13, 4}, target{1, 7, 8, 11};
    std::size_t n_found = 0;
    const auto count = [&](const NamedValue&) { ++n_found; };
    const double loss = model.grad(source, count, {.target = target});
    EXPECT_GT(n_found, 10U) << name;
    const auto logits = model.trace(source, {.sites = {"hook_logits"}, .target = target})[0];
    double expected = 0;
    const std::int64_t vocab = logits.shape[1];
    for (std::size_t row = 0; row + 1 < target.size(); ++row) {
      const float* const scores = logits.values.data() + static_cast<std::int64_t>(row) * vocab;
      double sum = 0;
      for (std::int64_t id = 0; id < vocab; ++id) sum += std::exp(static_cast<double>(scores[id]));
      expected += std::log(sum) - scores[target[row + 1]];
    }
    EXPECT_NEAR(loss, expected / 3, 1e-5) << name;
    EXPECT_THROW(model.grad(source, count), BadInput);
    EXPECT_THROW(model.grad(source, count, {.target = {1}}), BadInput);
    EXPECT_THROW(model.target_ids("a"), BadInput);  // there is no tokenizer

    GenerateOptions options{.max_tokens = 5};
    options.beam = 3;
    options.n_best = 2;
    const GenerateResult found = model.generate(source, options);
    ASSERT_EQ(found.hypotheses.size(), 2U) << name;
    EXPECT_EQ(found.ids, found.hypotheses[0].ids);
    EXPECT_GE(found.hypotheses[0].score, found.hypotheses[1].score);
    options.beam = options.n_best = 1;
    options.prefix_ids = Ids{7, 8};
    EXPECT_EQ(model.generate(source, options).hypotheses.size(), 1U);
    options.early_stop = "perhaps";
    EXPECT_THROW(model.generate(source, options), BadInput);
  }
  EXPECT_THROW(golden("gpt2").grad(Ids{1, 2}, [](const NamedValue&) {}, {.target = {1, 2}}), BadInput);
  EXPECT_THROW(golden("gpt2").generate(Ids{1, 2}, {.prefix_ids = Ids{3}}), BadInput);
}

TEST(LibraryValues, TensorsInMemoryAreAModel) {
  for (const char* name : {"gpt2", "gemma2_f16", "llama_gqa_bf16_sharded", "falcon_new"}) {
    const LanguageModel model = golden(name);
    const Ids ids = golden_ids(name);
    std::vector<StateTensor> tensors = model.state();
    const auto owner = std::make_shared<const LanguageModel>(model);
    EXPECT_EQ(LanguageModel::from_tensors(model.config_json(), tensors, owner).logits(ids), model.logits(ids)) << name;
    const TempFolder folder;
    model.save(folder / "saved");
    const LanguageModel saved = LanguageModel::open(folder / "saved");
    EXPECT_EQ(saved.logits(ids), model.logits(ids)) << name;
    const auto again = saved.state();
    ASSERT_EQ(again.size(), tensors.size());
    for (std::size_t i = 0; i < again.size(); ++i) {
      EXPECT_EQ(again[i].name, tensors[i].name);
      EXPECT_EQ(again[i].type, tensors[i].type);
      EXPECT_EQ(std::memcmp(again[i].bytes.data(), tensors[i].bytes.data(), again[i].bytes.size()), 0);
    }
    tensors.back().shape.push_back(2);
    EXPECT_THROW(LanguageModel::from_tensors(model.config_json(), tensors, owner), BadInput);
    tensors.pop_back();
    EXPECT_THROW(LanguageModel::from_tensors(model.config_json(), tensors, owner), BadCheckpoint);
    EXPECT_THROW(LanguageModel::from_tensors("{", tensors, owner), BadCheckpoint);
  }
}

TEST(LibraryValues, LogitsAreComputedInTheCallersMemory) {
  for (const char* name : {"gpt2", "gemma2"}) {  // Gemma 2 caps its logits
    const LanguageModel model = golden(name);
    const Ids ids = golden_ids(name);
    const auto whole = model.trace(ids), silenced = model.trace(ids, {.writes = {"hook_logits[1]=0"}});
    std::vector<float> logits(ids.size() * static_cast<std::size_t>(model.vocab_size()));
    const auto expect_same = [&](const std::vector<SiteValue>& expected, const TraceOptions& options) {
      const auto values = model.trace(ids, options);
      ASSERT_EQ(values.size(), expected.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool is_logits = values[i].name == "hook_logits";
        EXPECT_EQ(values[i].shape, expected[i].shape);
        EXPECT_EQ(is_logits, values[i].values.empty());
        EXPECT_TRUE(same_bits(is_logits ? logits : values[i].values, expected[i].values)) << values[i].name;
      }
    };
    expect_same(whole, {.logits = logits});
    expect_same(silenced, {.writes = {"hook_logits[1]=0"}, .logits = logits});
    EXPECT_THROW(model.trace(ids, {.logits = std::span(logits).first(1)}), BadInput);
    EXPECT_THROW(model.trace(ids, {.logits = logits, .gradients = true}), BadInput);
  }
}

/// A vocabulary so large that the logits of a text are computed in groups of rows.
TEST(LibraryValues, LogitsInGroupsAreThoseOfAllRows) {
  constexpr std::int64_t kVocab = 300'000;
  const LanguageModel small = golden("gpt2");
  Json config = parse_json(small.config_json(), "config");
  config["vocab_size"] = kVocab;
  std::vector<StateTensor> tensors = small.state();
  const auto table = std::make_shared<std::vector<float>>();
  for (StateTensor& tensor : tensors) {
    if (!tensor.name.ends_with("wte.weight")) continue;
    tensor.shape[0] = kVocab;
    for (std::int64_t i = 0; i < kVocab * tensor.shape[1]; ++i) {
      table->push_back(static_cast<float>(i * 7919 % 10'007) / 20'000.0F - 0.25F);
    }
    tensor.bytes = std::as_bytes(std::span(*table));
  }
  const std::pair owner(table, small);
  const LanguageModel model =
      LanguageModel::from_tensors(config.dump(), tensors, std::make_shared<decltype(owner)>(owner));
  Ids ids;
  for (std::int32_t i = 0; i < 20; ++i) ids.push_back(i * 9973);
  std::vector<float> logits(ids.size() * kVocab);
  const auto values = model.trace(ids, {.sites = {"unembed.hook_out", "hook_lo*"}, .logits = logits});
  const auto at_once = model.trace(ids, {.sites = {"unembed.hook_out", "hook_lo*"}, .writes = {"hook_logits*=1"}});
  ASSERT_EQ(values.size(), 3U);
  EXPECT_TRUE(same_bits(logits, model.logits(ids)));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(values[i].shape, at_once[i].shape);
    EXPECT_TRUE(same_bits(i == 1 ? logits : values[i].values, at_once[i].values)) << values[i].name;
  }
}

TEST(LibraryValues, ATextGrowsInSteps) {
  const LanguageModel model = LanguageModel::open(source_dir() + "/models/default");
  const GenerateOptions options{.max_tokens = 20, .n_logprobs = 2, .seed = 4};
  const GenerateResult whole = model.generate("Once upon a time", options);
  TextStepper text = model.stepper("Once upon a time", options);
  EXPECT_THROW(text.result(), BadInput);
  std::string all;
  while (const auto piece = text.next()) all += *piece;
  EXPECT_EQ(all, whole.text);
  EXPECT_EQ(text.result().ids, whole.ids);
  EXPECT_EQ(text.next(), std::nullopt);
}

TEST(LibraryValues, AForkedChildMayUseTheModel) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "TSan does not follow a child into threads";
#endif
  const LanguageModel model = golden("gpt2", 2);
  const Ids ids = golden_ids("gpt2");
  const std::vector<float> expected = model.logits(ids);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(model.logits(ids) == expected ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

class LibraryTraining : public testing::Test {
 protected:
  TinyRun run(const std::string& name) const {
    TinyRun run;
    run.data = folder_ / "corpus";
    run.out = folder_ / name;
    return run;
  }
  std::string config(const std::string& name) const {
    const std::string path = folder_ / (name + ".toml");
    std::ofstream(path) << run(name).toml();
    return path;
  }
  void SetUp() override { write_corpus(folder_ / "corpus", 23, 2000); }

  TempFolder folder_;
};

TEST_F(LibraryTraining, StepsAreThoseOfARun) {
  const TrainResult whole = train_tiny(run("whole"));
  TrainingRun stepped = TrainingRun::open(config("stepped"));
  const LanguageModel model = stepped.model();
  std::vector<float> before = model.logits(Ids{1, 2, 3});
  std::int64_t n = 0;
  while (const auto step = stepped.step()) {
    EXPECT_EQ(step->step, ++n);
    std::vector<float> now = model.logits(Ids{1, 2, 3});
    EXPECT_FALSE(same_bits(now, before));
    before = std::move(now);
  }
  const TrainResult result = stepped.finish();
  EXPECT_EQ(result.loss, whole.loss);
  EXPECT_EQ(result.step, n);
  EXPECT_EQ(bytes_of(result.checkpoint + "/model.safetensors"), bytes_of(whole.checkpoint + "/model.safetensors"));
  EXPECT_EQ(LanguageModel::open(result.checkpoint).logits(Ids{1, 2, 3}), before);

  model.save(folder_ / "saved");
  EXPECT_EQ(bytes_of(folder_ / "saved/model.safetensors"), bytes_of(result.checkpoint + "/model.safetensors"));
  std::size_t n_gradients = 0;
  model.grad(Ids{1, 2, 3}, [&](const NamedValue&) { ++n_gradients; });
  EXPECT_EQ(n_gradients, model.state().size());
}

TEST_F(LibraryTraining, ACancelledStepIsSavedAndTheRunGoesOn) {
  std::stop_source cancel;
  {
    TrainingRun first = TrainingRun::open(config("cancelled"));
    first.step();
    first.step();
    cancel.request_stop();
    EXPECT_THROW(first.step(cancel.get_token()), Interrupted);
  }
  EXPECT_THROW(TrainingRun::open(config("cancelled")), BadInput);
  TrainingRun second = TrainingRun::open(config("cancelled"), {.resume = true});
  EXPECT_EQ(second.step()->step, 3);
  EXPECT_THROW(second.model().trace(Ids{1, 2}, {.watch = {.sites = {"hook_embed"},
                                                          .tap =
                                                              [&](auto&&...) {
                                                                second.step();
                                                                return false;
                                                              }}}),
               BadInput)
      << "parameters must not change during a pass";
}

}  // namespace
}  // namespace vitrine::test
