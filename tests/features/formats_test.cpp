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
              HasSubstr("no dictionary can be attached"));
  EXPECT_THAT(refusal(path("gpt2-skip_transcoder"), "blocks.1.hook_mlp_out"), HasSubstr("it has 3 dictionaries"));
  EXPECT_THAT(refusal(path("gpt2")), HasSubstr("the folder has no dictionary"));
}

/// A copy of a SAELens folder with another config.
std::string changed(const std::string& from, const std::string& name, const Json& changes) {
  const std::filesystem::path to = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(to);
  std::filesystem::create_directories(to);
  std::filesystem::copy_file(from + "/sae_weights.safetensors", to / "sae_weights.safetensors");
  Json config = parse_json(MappedFile::open(from + "/cfg.json")->text(), "cfg.json");
  config.merge_patch(changes);
  std::ofstream(to / "cfg.json") << config.dump();
  return to.string();
}

TEST_F(Formats, RefuseConfigsThatMeanSomethingElse) {
  const Checkpoint gpt2 = load_checkpoint(path("gpt2"));
  const auto refusal = [&](const std::string& from, const Json& changes) -> std::string {
    try {
      applied(changed(path(from), "changed", changes), *gpt2.model);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_EQ(refusal("saelens-standard", {{"seqpos", 3}}), "");
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

}  // namespace
}  // namespace vitrine::test
