// Low-rank adapters against PEFT, and what they must not change.
#include "checkpoint/adapters/adapter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/adapters/create.h"
#include "checkpoint/safetensors.h"
#include "generate/generator.h"
#include "generate/score.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

std::vector<float> scored(const GenerateContext& context, const std::vector<std::int32_t>& ids) {
  std::vector<float> logits;
  score(context, {ids},
        [&](std::int64_t, const Tensor& rows) { logits.insert(logits.end(), rows.data, rows.data + rows.count()); });
  return logits;
}

std::vector<float> stored(const SafetensorsFile& file, const std::string& name) {
  const std::span<const std::byte> bytes = file.tensors().at(name).bytes;
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

Json json_file(const std::string& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  return Json::parse(std::string_view(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()));
}

class AdapterGolden : public testing::TestWithParam<const char*> {};

/// Logits without an adapter, with it, and at half its scale, within 1e-5 · (1 + the largest).
TEST_P(AdapterGolden, LogitsArePeft) {
  const std::string folder = outside_data(std::string("tuning/lora/") + GetParam());
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no tuning/lora";
  const Checkpoint checkpoint = load_checkpoint(folder);
  ThreadPool pool(2);
  const std::shared_ptr<const Adapter> adapter = load_adapter(folder + "/adapter", checkpoint, pool);
  const SafetensorsFile golden = SafetensorsFile::open(folder + "/logits.safetensors");
  const auto sequences = json_file(folder + "/expected.json").at("ids").get<std::vector<std::vector<std::int32_t>>>();
  for (const auto& [name, tensor] : golden.tensors()) {
    const double scale = name.starts_with("base") ? 0 : name.starts_with("half") ? 0.5 : 1;
    const std::vector<AppliedAdapter> applied(scale == 0 ? 0 : 1, AppliedAdapter{adapter.get(), scale});
    GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
    context.adapters = applied;
    const std::vector<float> logits = scored(context, sequences.at(static_cast<std::size_t>(name.back() - '0')));
    const std::vector<float> expected = stored(golden, name);
    ASSERT_EQ(logits.size(), expected.size()) << name;
    float largest = 0, difference = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      difference = std::max(difference, std::abs(logits[i] - expected[i]));
    }
    EXPECT_LE(difference, 1e-5F * (1 + largest)) << name;
  }
}

/// A scale of zero adds zeros, which changes no bit.
TEST_P(AdapterGolden, AScaleOfZeroChangesNoBit) {
  const std::string folder = outside_data(std::string("tuning/lora/") + GetParam());
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no tuning/lora";
  if (std::string_view(GetParam()).ends_with("dora")) GTEST_SKIP() << "magnitudes act at every scale";
  const Checkpoint checkpoint = load_checkpoint(folder);
  ThreadPool pool(2);
  const std::shared_ptr<const Adapter> adapter = load_adapter(folder + "/adapter", checkpoint, pool);
  const std::vector<AppliedAdapter> zero = {{adapter.get(), 0}}, whole = {{adapter.get(), 1}};
  const std::vector<std::int32_t> ids = some_ids(*checkpoint.model, 9);
  GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  const std::vector<float> base = scored(context, ids);
  context.adapters = zero;
  EXPECT_EQ(scored(context, ids), base);
  context.adapters = whole;
  EXPECT_NE(scored(context, ids), base);
}

/// Sequences with the adapter, at half its scale, and without it, in one batch: the tokens and log-probabilities that
/// each has alone.
TEST_P(AdapterGolden, SequencesOfABatchHaveTheirOwn) {
  const std::string folder = outside_data(std::string("tuning/lora/") + GetParam());
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no tuning/lora";
  const Checkpoint checkpoint = load_checkpoint(folder);
  ThreadPool pool(2);
  const std::shared_ptr<const Adapter> adapter = load_adapter(folder + "/adapter", checkpoint, pool);
  const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  std::vector<GenerateRequest> requests(4);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = some_ids(*checkpoint.model, 4 + static_cast<std::int64_t>(i));
    requests[i].max_tokens = 5;
    requests[i].sampling.temperature = 0;
    requests[i].n_logprobs = 3;
    if (i > 0) requests[i].adapters.emplace(1, AppliedAdapter{adapter.get(), i == 1 ? 0.5 : 1.0});
  }
  const std::vector<GenerateResult> together = generate(context, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const GenerateResult alone = generate(context, {&requests[i], 1})[0];
    EXPECT_EQ(together[i].ids, alone.ids) << i;
    ASSERT_EQ(together[i].logprobs.size(), alone.logprobs.size()) << i;
    for (std::size_t t = 0; t < alone.logprobs.size(); ++t) {
      EXPECT_EQ(together[i].logprobs[t].logprob, alone.logprobs[t].logprob) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AdapterGolden, testing::Values("gemma2", "gpt2", "gpt_neox", "llama", "mistral_dora"));

/// `gate` means the FFN's, as the modules of PEFT's gate_proj.
TEST(NewAdapters, TheGateOfPerLayerEmbeddingsIsChosenByItsModule) {
  const Checkpoint base = golden_checkpoint("gemma4");
  const auto count = [&](const char* target) {
    NewAdapter options;
    options.rank = 2;
    options.targets = {target};
    std::pair<int, int> n;  // of FFNs, of per-layer embeddings
    for (const AdapterMatrix& matrix : new_adapter(base, options, 3).matrices) {
      ++(matrix.param->name.find(".ple.") != std::string::npos ? n.second : n.first);
    }
    return n;
  };
  const int two_for_each_layer = 2 * static_cast<int>(base.model->config().n_layers());
  EXPECT_EQ(count("gate"), std::pair(two_for_each_layer, 0));
  EXPECT_EQ(count("per_layer_input_gate"), std::pair(0, two_for_each_layer));
}

}  // namespace
}  // namespace vitrine::test
