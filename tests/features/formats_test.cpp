// Dictionaries of every format against values computed in float64 (VITRINE_DATA/features).
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "features/support.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name) {
  const std::span<const std::byte> bytes = file.tensors().at(name).bytes;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The largest difference over 1 + the largest expected value.
double difference(const std::vector<float>& got, const std::vector<float>& expected) {
  if (got.size() != expected.size()) return INFINITY;
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(got[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return most / (1 + largest);
}

class Formats : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = outside_data("features");
    if (folder_.empty()) GTEST_SKIP() << "VITRINE_DATA has no features";
    cases_ = parse_json(MappedFile::open(folder_ + "/expected.json")->text(), "expected.json");
    ids_ = cases_["ids"].get<std::vector<std::int32_t>>();
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  Json cases_;
  std::vector<std::int32_t> ids_;
};

constexpr const char* kValues[] = {"hook_sae_acts_pre", "hook_sae_acts_post", "hook_sae_recons", "hook_sae_error"};

TEST_F(Formats, HaveTheExpectedValuesAndLogits) {
  for (const Json& own : cases_["dictionaries"]) {
    SCOPED_TRACE(own["path"].get<std::string>());
    const Checkpoint checkpoint = load_checkpoint(path(own["model"]));
    const Model& model = *checkpoint.model;
    const SafetensorsFile expected = SafetensorsFile::open(path(own["expected"]));
    const Applied read = applied(path(own["path"]), model);
    const std::string site = name_of(read.front().dictionary->output) + ".";
    DictionaryRun o{.dictionaries = read};
    o.globs.clear();
    for (const char* value : kValues) o.globs.push_back(site + value);
    const DictionaryValues got = run(model, ids_, o);
    for (const char* value : kValues) {
      EXPECT_LT(difference(got.values.at(site + value), floats_of(expected, value)), 1e-5) << value;
    }
    const DictionaryValues plain = run(model, ids_, {});
    EXPECT_TRUE(same_bits(got.logits, plain.logits)) << "a dictionary that reads changes bits";
    const Applied replaces = applied(path(own["path"]), model, DictionaryUse::replace);
    EXPECT_LT(difference(run(model, ids_, {.dictionaries = replaces}).logits, floats_of(expected, "replaced_logits")),
              1e-5);
    const DictionaryRun steered{.writes = {own["steered"]}, .dictionaries = read};
    EXPECT_LT(difference(run(model, ids_, steered).logits, floats_of(expected, "steered_logits")), 1e-5);
  }
}

TEST_F(Formats, HaveTheSameBitsInEveryChunkThreadAndInstructionSet) {
  for (const Json& own : cases_["dictionaries"]) {
    SCOPED_TRACE(own["path"].get<std::string>());
    const Checkpoint checkpoint = load_checkpoint(path(own["model"]));
    const Model& model = *checkpoint.model;
    DictionaryRun o{.writes = {own["steered"]}, .dictionaries = applied(path(own["path"]), model)};
    o.writes.front().replace(o.writes.front().find("4:"), 2, ":");  // a Recorder's indices are those of a chunk
    const std::string site = name_of(o.dictionaries.front().dictionary->output) + ".";
    o.globs = {site + "hook_sae_acts_pre", site + "hook_sae_acts_post", site + "hook_sae_error"};
    const DictionaryValues whole = run(model, ids_, o);
    const auto expect_same = [&](const DictionaryRun& other) {
      const DictionaryValues got = run(model, ids_, other);
      EXPECT_TRUE(same_bits(got.logits, whole.logits));
      for (const auto& [name, values] : whole.values) EXPECT_TRUE(same_bits(got.values.at(name), values)) << name;
    };
    for (const std::int64_t chunk : {1, 3}) {
      DictionaryRun chunked = o;
      chunked.chunk = chunk;
      expect_same(chunked);
    }
    DictionaryRun threaded = o;
    threaded.threads = 3;
    expect_same(threaded);
    for (const Isa isa : available_isas()) {
      DictionaryRun other = o;
      other.kernels = &kernels_for(isa);
      expect_same(other);
    }
  }
}

TEST_F(Formats, AreRefusedByNameWhereTheyCannotBeRead) {
  const Checkpoint gpt2 = load_checkpoint(path("gpt2"));
  const auto refusal = [&](const std::string& dictionary, const std::string& site = "") -> std::string {
    try {
      applied(dictionary, *gpt2.model, DictionaryUse::automatic, "", site);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal(path("llama-scope/L1R")), HasSubstr("blocks.1.hook_resid_post: expected d_in = 24, the width"));
  EXPECT_THAT(refusal(path("saelens-standard"), "blocks.9.hook_resid_post"), HasSubstr("no site blocks.9"));
  EXPECT_THAT(refusal(path("saelens-standard"), "blocks.1.attn.hook_pattern"),
              HasSubstr("no dictionary or probe can be attached"));
  EXPECT_THAT(refusal(path("gpt2-skip_transcoder"), "blocks.1.hook_mlp_out"), HasSubstr("it has 3 dictionaries"));
  EXPECT_THAT(refusal(path("gpt2")), HasSubstr("the folder has no dictionary"));
}

/// A copy of a folder with another config. The copy's own name is that of the folder, where some formats have the site.
std::string changed(const std::string& from, const Json& changes, const std::string& config_name = "cfg.json") {
  namespace fs = std::filesystem;
  // Tests may run at the same time.
  const std::string own = std::string("changed-") + testing::UnitTest::GetInstance()->current_test_info()->name();
  const fs::path to = fs::path(testing::TempDir()) / own / fs::path(from).filename();
  fs::remove_all(to.parent_path());
  fs::create_directories(to.parent_path());
  fs::copy(from, to, fs::copy_options::recursive);
  Json config = parse_json(MappedFile::open(from + "/" + config_name)->text(), config_name);
  config.merge_patch(changes);
  fs::permissions(to / config_name, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(to / config_name) << config.dump();
  return to.string();
}

TEST_F(Formats, RefuseConfigsThatMeanSomethingElse) {
  const Checkpoint gpt2 = load_checkpoint(path("gpt2"));
  const auto refusal = [&](const std::string& from, const Json& changes) -> std::string {
    try {
      applied(changed(path(from), changes), *gpt2.model);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_EQ(refusal("saelens-standard", {{"seqpos_slice", {5, -5}}, {"metadata", {{"anything", 3}}}}), "");
  EXPECT_THAT(refusal("saelens-standard", {{"architecture", "temporal"}}), HasSubstr("\"temporal\" is not known"));
  EXPECT_THAT(refusal("saelens-standard", {{"normalize_activations", "expected_average_only_in"}}),
              HasSubstr("needs the factor of activation_scaler.json"));
  EXPECT_THAT(refusal("saelens-standard", {{"normalize_activations", "covariance_whitening"}}),
              HasSubstr("is not read"));
  EXPECT_THAT(refusal("saelens-scaled", {{"finetuning_scaling_factor", false}}), HasSubstr("expected all 1"));
  EXPECT_THAT(refusal("saelens-topk", {{"k", nullptr}}), HasSubstr("k is missing"));
  EXPECT_THAT(refusal("saelens-standard", {{"metadata", {{"hook_name", nullptr}}}}), HasSubstr("give it as PATH@SITE"));
  EXPECT_THAT(refusal("saelens-standard", {{"d_sae", 41}}), HasSubstr("the weights have 40, the config says 41"));
  EXPECT_THAT(refusal("saelens-standard", {{"architecture", "jumprelu"}}), HasSubstr("threshold is missing"));
  EXPECT_THAT(refusal("saelens-jumprelu", {{"architecture", "standard"}}), HasSubstr("threshold is not known"));
}

/// What a format says about a change of its config, "" if it is read.
class Configs : public Formats {
 protected:
  std::string refusal(const std::string& model, const std::string& from, const Json& changes,
                      const std::string& config) {
    const Checkpoint checkpoint = load_checkpoint(path(model));
    try {
      applied(changed(path(from), changes, config), *checkpoint.model);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
};

TEST_F(Configs, WithAnUnknownKeyAreRefusedInEveryFormat) {
  using testing::HasSubstr;
  const struct {
    const char *model, *from, *config;
  } formats[] = {{"gpt2", "saelens-standard", "cfg.json"},
                 {"gemma2", "gemma-scope-2/resid_post/layer_1", "config.json"},
                 {"gemma2", "llama-scope/L1R", "hyperparams.json"},
                 {"gemma2", "sparsify/layers.1", "cfg.json"},
                 {"gemma2", "dictionary_learning/AutoEncoder", "config.json"}};
  for (const auto& own : formats) {
    SCOPED_TRACE(own.from);
    EXPECT_EQ(refusal(own.model, own.from, Json::object(), own.config), "");
    EXPECT_THAT(refusal(own.model, own.from, {{"softcap", 30}}, own.config),
                HasSubstr("softcap: a key that is not known, and may change the values"));
    EXPECT_EQ(refusal(own.model, own.from, {{"softcap", nullptr}}, own.config), "");
  }
  EXPECT_THAT(refusal("gemma2", "dictionary_learning/AutoEncoder", {{"trainer", {{"softcap", 1}}}}, "config.json"),
              HasSubstr("softcap: a key that is not known"));
  EXPECT_THAT(refusal("gemma2", "dictionary_learning/AutoEncoder", {{"buffer", {{"io", "in"}}}}, "config.json"),
              HasSubstr("its files name no site"));
  EXPECT_THAT(refusal("gemma2", "dictionary_learning/AutoEncoder",
                      {{"trainer", {{"submodule_name", "mlp_out_layer_1"}}}}, "config.json"),
              HasSubstr("its files name no site"));
}

TEST_F(Configs, AreRefusedWhereAKnownKeyMeansOtherValues) {
  using testing::HasSubstr;
  const auto saelens = [&](const Json& changes) { return refusal("gpt2", "saelens-standard", changes, "cfg.json"); };
  EXPECT_THAT(saelens({{"reshape_activations", "hook_q"}}), HasSubstr("expected none or hook_z, got \"hook_q\""));
  EXPECT_THAT(saelens({{"metadata", {{"model_from_pretrained_kwargs", {{"fold_value_biases", true}}}}}}),
              HasSubstr("fold_value_biases: it is not read"));
  for (const bool is_centered : {false, true}) {
    EXPECT_EQ(saelens({{"metadata", {{"model_from_pretrained_kwargs", {{"center_writing_weights", is_centered}}}}}}),
              "");
  }
  EXPECT_THAT(saelens({{"hook_head_index_out", 1}}), HasSubstr("hook_head_index_out: expected that of"));
  EXPECT_THAT(refusal("gpt2", "saelens-old-topk", {{"activation_fn_kwargs", {{"signed", true}}}}, "cfg.json"),
              HasSubstr("signed: it is not read"));
  EXPECT_THAT(refusal("gemma2", "sparsify/layers.1", {{"signed", true}}, "cfg.json"), HasSubstr("signed: it is not"));
  EXPECT_THAT(refusal("gemma2", "sparsify/layers.1", {{"num_latents", 41}}, "cfg.json"), HasSubstr("have 40"));
  EXPECT_THAT(refusal("gemma2", "gemma-scope-2/resid_post/layer_1", {{"type", "crosscoder"}}, "config.json"),
              HasSubstr("type: expected sae or transcoder, got \"crosscoder\""));
  EXPECT_THAT(refusal("gemma2", "llama-scope/L1R", {{"use_glu_encoder", true}}, "hyperparams.json"),
              HasSubstr("use_glu_encoder: it is not read"));
}

TEST_F(Configs, InYamlAreRefusedForUnknownKeys) {
  namespace fs = std::filesystem;
  const Checkpoint gpt2 = load_checkpoint(path("gpt2"));
  const fs::path to = fs::path(testing::TempDir()) / "yaml";
  fs::remove_all(to);
  fs::copy(path("gpt2-skip_transcoder"), to, fs::copy_options::recursive);
  fs::permissions(to / "config.yaml", fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(to / "config.yaml", std::ios::app) << "transcoders: [a, b]\n";
  EXPECT_EQ(applied(to.string(), *gpt2.model).size(), 3u);
  std::ofstream(to / "config.yaml", std::ios::app) << "activation: topk\n";
  try {
    applied(to.string(), *gpt2.model);
    FAIL() << "read";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("activation: a key that is not known"));
  }
}

}  // namespace
}  // namespace vitrine::test
