// Low-rank adapters against PEFT, and what they must not change.
#include "checkpoint/adapters/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/temp_folder.h"
#include "checkpoint/adapters/create.h"
#include "checkpoint/adapters/merge.h"
#include "checkpoint/adapters/writer.h"
#include "checkpoint/safetensors.h"
#include "generate/generator.h"
#include "generate/score.h"
#include "support/backward.h"
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
    const std::vector<AppliedAdapter> applied(scale == 0 ? 0 : 1, AppliedAdapter{adapter, scale});
    GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
    context.modifiers.adapters = applied;
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
  const std::vector<AppliedAdapter> zero = {{adapter, 0}}, whole = {{adapter, 1}};
  const std::vector<std::int32_t> ids = some_ids(*checkpoint.model, 9);
  GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
  const std::vector<float> base = scored(context, ids);
  context.modifiers.adapters = zero;
  EXPECT_EQ(scored(context, ids), base);
  context.modifiers.adapters = whole;
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
    if (i > 0) requests[i].modifiers = {.adapters = {{adapter, i == 1 ? 0.5 : 1.0}}};
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

/// Adapters of PEFT for goldens, with its logits and gradients in float64 (tools/goldens/lora.py).
class PeftGolden : public testing::TestWithParam<const char*> {
 protected:
  static std::string folder() { return goldens() + "/lora/" + GetParam(); }
  static std::string adapter_of(const std::string& folder) { return folder + "/adapter"; }

  const Json config_ = json_file(adapter_of(folder()) + "/adapter_config.json");
  const Checkpoint base_ = golden_checkpoint(config_.at("base_model_name_or_path"));
  ThreadPool pool_{2};
  const std::shared_ptr<const LoadedAdapter> adapter_ = load_adapter(adapter_of(folder()), base_, pool_);
  const Values golden_ = tensors_of(folder() + "/golden.safetensors");
  const std::vector<std::int32_t> ids_{golden_.at("ids").data.begin(), golden_.at("ids").data.end()};

  std::vector<float> logits(const Model& model, std::vector<AppliedAdapter> applied, int threads = 2) const {
    ThreadPool pool(threads);
    GenerateContext context{&model, &pool, &default_kernels()};
    context.modifiers.adapters = applied;
    return scored(context, ids_);
  }
  void expect_logits(const std::vector<float>& ours, double tolerance) const {
    const std::vector<float>& expected = golden_.at("logits").data;
    ASSERT_EQ(ours.size(), expected.size());
    const double bar = tolerance * (1 + largest(expected));
    for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], expected[i], bar) << i;
  }
};

TEST_P(PeftGolden, Logits) {
  const std::vector<AppliedAdapter> applied = {{adapter_, 1}};
  expect_logits(logits(*base_.model, applied), 4e-6);
  EXPECT_GT(largest(golden_.at("logits").data), 0.1);
  const std::vector<float> without = logits(*base_.model, {});
  double change = 0;
  for (std::size_t i = 0; i < without.size(); ++i) {
    change =
        std::max(change, std::abs(static_cast<double>(without[i]) - static_cast<double>(golden_.at("logits").data[i])));
  }
  EXPECT_GT(change, 1e-2) << "the adapter has an effect";
  EXPECT_EQ(logits(*base_.model, applied, 1), logits(*base_.model, applied, 3));
}

TEST_P(PeftGolden, Gradients) {
  ModelGradients gradients(*base_.model, {.threads = 2, .adapter = adapter_.get()});
  gradients.forward_backward({ids_}, 1.0F / static_cast<float>(ids_.size() - 1));
  const TempFolder out;
  write_adapter_gradients(out / "g.safetensors", *adapter_, base_, gradients.raw());
  Values reference;
  for (const auto& [name, value] : golden_) {
    if (name.starts_with("grad.")) reference[name.substr(5)] = value;
  }
  const Distance d = distance(tensors_of(out / "g.safetensors"), reference, 1e-4, 1e-6);
  EXPECT_LE(d.worst, 1) << d.name;
}

/// What is written has the tensors that PEFT wrote, bit for bit, and selects the same parameters and modules.
TEST_P(PeftGolden, IsWrittenAsItWasRead) {
  const TempFolder out;
  write_peft_adapter(out / "", *adapter_, base_, {.rslora = adapter_->rslora});
  EXPECT_EQ(first_difference(tensors_of(out / "adapter_model.safetensors"),
                             tensors_of(folder() + "/adapter/adapter_model.safetensors")),
            "");
  const std::shared_ptr<const LoadedAdapter> again = load_adapter(out / "", base_, pool_);
  EXPECT_EQ(logits(*base_.model, {{again, 1}}), logits(*base_.model, {{adapter_, 1}}));
  const Json written = json_file(out / "adapter_config.json");
  EXPECT_EQ(written.contains("target_parameters"), !config_.value("target_parameters", Json()).empty());
}

TEST_P(PeftGolden, Merged) {
  const std::vector<AppliedAdapter> applied = {{adapter_, 1}};
  const Checkpoint merged = merge_adapters(
      base_, applied, [](const Param&) { return DType::f32; }, pool_);
  expect_logits(logits(*merged.model, {}), 6e-6);
}

/// A copy that can be trained is the same adapter, which is written in the same form.
TEST_P(PeftGolden, CanBeTrainedFurther) {
  if (config_.at("use_dora") == true) GTEST_SKIP() << "magnitudes cannot be trained";
  const WritableAdapter copy = writable_copy(*adapter_);
  EXPECT_EQ(logits(*base_.model, {{copy.adapter, 1}}), logits(*base_.model, {{adapter_, 1}}));
  const TempFolder out;
  write_peft_adapter(out / "", *copy.adapter, base_, {.rslora = adapter_->rslora});
  EXPECT_EQ(first_difference(tensors_of(out / "adapter_model.safetensors"),
                             tensors_of(folder() + "/adapter/adapter_model.safetensors")),
            "");
}

INSTANTIATE_TEST_SUITE_P(Lora, PeftGolden,
                         testing::Values("experts", "experts_alternating", "experts_transposed", "experts_one",
                                         "experts_next_to_ffn", "experts_shared", "latent_dora"));

/// Two adapters of the same maps, one after the other, are what the merge of the first and then the second is; also
/// where magnitudes act before a product.
TEST(Adapters, OneAfterAnotherAreMergedInTurn) {
  const Checkpoint base = golden_checkpoint("deepseek_v3");
  ThreadPool pool(2);
  NewAdapter options;
  options.rank = 2;
  options.targets = {"kv_b_proj"};
  const WritableAdapter lora = new_adapter(base, options, 3);
  for (const AdapterMatrix& matrix : lora.matrices) {
    for (std::int64_t i = 0; i < matrix.param->shape.count(); ++i) {
      matrix.values[i] = 0.3F * std::sin(static_cast<float>(7 * i));
    }
  }
  const auto dora = load_adapter(goldens() + "/lora/latent_dora/adapter", base, pool);
  const std::vector<std::int32_t> ids = some_ids(*base.model, 9);
  const auto f32 = [](const Param&) { return DType::f32; };
  for (const bool dora_first : {false, true}) {
    const AppliedAdapter a{dora, 1}, b{lora.adapter, 1};
    const std::vector<AppliedAdapter> both = dora_first ? std::vector{a, b} : std::vector{b, a};
    const Checkpoint merged = merge_adapters(base, both, f32, pool);
    GenerateContext context{base.model.get(), &pool, &default_kernels()};
    context.modifiers.adapters = both;
    const std::vector<float> ours = scored(context, ids);
    GenerateContext of_merged{merged.model.get(), &pool, &default_kernels()};
    const std::vector<float> expected = scored(of_merged, ids);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      ASSERT_NEAR(ours[i], expected[i], 1e-5 * (1 + largest(expected))) << dora_first << ' ' << i;
    }
  }
}

/// All families with experts: a new adapter has their parameters, which change nothing until they are trained.
TEST(NewAdapters, ExpertsAreParameters) {
  for (const char* const golden : {"mixtral", "gpt_oss", "llama4", "granitemoe", "granitemoe_swa", "gemma4_moe",
                                   "deepseek_v3", "qwen2_moe", "minimax_m2", "hunyuan_v1_moe"}) {
    const Checkpoint base = golden_checkpoint(golden);
    NewAdapter options;
    options.rank = 2;
    options.targets = {"gate", "down"};
    const WritableAdapter made = new_adapter(base, options, 3);
    std::size_t n_parameters = 0;
    for (const AdapterPlace& place : made.adapter->places) {
      EXPECT_FALSE(place.ours.front().ends_with("router.weight")) << golden << ' ' << place.module;
      n_parameters += place.is_parameter ? 1 : 0;
      EXPECT_TRUE(place.is_parameter || place.ours.front().find(".experts.") == std::string::npos) << place.module;
    }
    std::size_t n_layers = 0;
    for (const BlockConfig& block : base.model->config().blocks) n_layers += find<MoeConfig>(block) != nullptr ? 1 : 0;
    EXPECT_EQ(n_parameters, 2 * n_layers) << golden;
    const TempFolder out;
    write_peft_adapter(out / "", *made.adapter, base, {});
    ThreadPool pool(2);
    const auto again = load_adapter(out / "", base, pool);
    EXPECT_EQ(again->maps.size(), made.adapter->maps.size()) << golden;
    const std::vector<std::int32_t> ids = some_ids(*base.model, 7);
    GenerateContext context{base.model.get(), &pool, &default_kernels()};
    const std::vector<float> before = scored(context, ids);
    const std::vector<AppliedAdapter> applied = {{again, 1}};
    context.modifiers.adapters = applied;
    EXPECT_EQ(scored(context, ids), before) << golden;
  }
}

/// A word never means a router, which some families call gate.
TEST(NewAdapters, ARouterIsChosenByItsName) {
  for (const auto& [golden, name] : {std::pair("mixtral", "mlp.gate"), std::pair("qwen2_moe", "mlp.gate")}) {
    const Checkpoint base = golden_checkpoint(golden);
    NewAdapter options;
    options.rank = 2;
    const auto has_router = [&] {
      const WritableAdapter made = new_adapter(base, options, 3);
      return std::any_of(made.adapter->maps.begin(), made.adapter->maps.end(),
                         [](const auto& map) { return map.first.ends_with("router.weight"); });
    };
    options.targets = {"gate"};
    EXPECT_FALSE(has_router()) << golden;
    options.targets = {name};
    EXPECT_TRUE(has_router()) << golden;
    options.targets = {};
    EXPECT_FALSE(has_router()) << golden;
  }
}

/// Files for earlier versions of transformers have modules of single experts.
TEST(Adapters, OfSingleExpertsStaySo) {
  const Checkpoint base = golden_checkpoint("mixtral");
  ThreadPool pool(2);
  const auto adapter = std::make_shared<LoadedAdapter>();
  for (const AdapterPlace& place : usual_places(base, AdapterFormat::peft, false)) {
    if (!place.module.ends_with("experts.1.w1")) continue;
    static std::vector<float> a(16, 0.5F), b(24, 0.25F);
    const auto shared = std::make_shared<const Param>(Param{"a", "a", {1, 16}, view_of(a.data(), 1, 16, 16)});
    adapter->maps.emplace(place.ours.front(), LowRank{shared, {"b", "b", {24, 1}, view_of(b.data(), 24, 1, 1)}, 2});
    adapter->places.push_back(place);
  }
  ASSERT_FALSE(adapter->maps.empty());
  const TempFolder out;
  write_peft_adapter(out / "", *adapter, base, {});
  const Json config = json_file(out / "adapter_config.json");
  EXPECT_EQ(load_adapter(out / "", base, pool)->maps.size(), adapter->maps.size());
  const Values tensors = tensors_of(out / "adapter_model.safetensors");
  EXPECT_TRUE(tensors.contains("base_model.model.model.layers.0.block_sparse_moe.experts.1.w1.lora_A.weight"));
}

class BadParameters : public testing::Test {
 protected:
  BadParameters() {
    std::filesystem::copy(goldens() + "/lora/experts/adapter", path_, std::filesystem::copy_options::recursive);
  }
  void set(const char* key, const Json& value) {
    Json config = json_file(path_ + "/adapter_config.json");
    config[key] = value;
    write_file(path_ + "/adapter_config.json", config.dump());
  }
  std::string refusal(const char* golden = "mixtral") {
    const Checkpoint base = golden_checkpoint(golden);
    ThreadPool pool(1);
    return message_of<BadCheckpoint>([&] { load_adapter(path_, base, pool); });
  }
  const TempFolder folder_;
  const std::string path_ = folder_ / "adapter";
};

TEST_F(BadParameters, AreRefused) {
  EXPECT_THAT(refusal("olmoe"), testing::HasSubstr("expected A ["));
  EXPECT_THAT(refusal("llama_mha"), testing::HasSubstr("the model has no such linear map"));
  set("target_parameters", {"mlp.experts.down_proj"});
  EXPECT_THAT(refusal(), testing::HasSubstr("base_layer"));
  set("target_parameters", 3);
  EXPECT_THAT(refusal(), testing::HasSubstr("target_parameters"));
  set("target_parameters", {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"});
  set("r", 4);
  EXPECT_THAT(refusal(), testing::HasSubstr("expected rank 4 by adapter_config.json for each expert, got 15"));
  set("r", 5);
  EXPECT_THAT(refusal(), testing::HasSubstr("expected"));
}

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
