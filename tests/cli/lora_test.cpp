// vitrine lora and --adapter: gradients, merged weights, the other format, new adapters, errors.
#include "cli/program.h"
#include "support/backward.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

class Lora : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    model_ = outside_data(std::string("tuning/lora/") + GetParam());
    if (model_.empty()) GTEST_SKIP() << "VITRINE_DATA has no tuning/lora";
    adapter_ = model_ + "/adapter";
  }
  /// What `predict` says after some ids.
  static Json predictions(const std::string& model, const Arguments& more = {}) {
    Arguments all = {"predict", model, "--ids", "1,2,3,4", "--top", "5"};
    all.insert(all.end(), more.begin(), more.end());
    return json_of(all);
  }
  static void expect_same(const Json& a, const Json& b) {
    ASSERT_EQ(a["tokens"].size(), b["tokens"].size());
    for (std::size_t t = 0; t < a["tokens"].size(); ++t) {
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_NEAR(a["tokens"][t]["top"][i]["logprob"].get<double>(),
                    b["tokens"][t]["top"][i]["logprob"].get<double>(), 1e-4);
      }
    }
  }
  bool is_dora() const { return std::string_view(GetParam()).ends_with("dora"); }

  const TempFolder folder_;
  std::string model_, adapter_;
};

/// The reference's names, and gradients within 5e-4 of each tensor's largest.
TEST_P(Lora, GradientsArePeft) {
  const std::string expected = model_ + "/expected.json", out = folder_ / "g.safetensors";
  const auto ids = Json::parse(read_file(expected)).at("ids").at(1).get<std::vector<std::int32_t>>();
  output_of({"grad", model_, "--ids", joined(ids), "--adapter", adapter_, "--out", out});
  const Values ours = tensors_of(out), reference = tensors_of(model_ + "/gradients.safetensors");
  ASSERT_EQ(ours.size(), reference.size());
  for (const auto& [name, value] : reference) {
    ASSERT_TRUE(ours.contains(name)) << name;
    const std::vector<float>& own = ours.at(name).data;
    ASSERT_EQ(own.size(), value.data.size()) << name;
    float largest = 0, difference = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      largest = std::max(largest, std::abs(value.data[i]));
      difference = std::max(difference, std::abs(own[i] - value.data[i]));
    }
    EXPECT_LE(difference, 5e-4F * largest) << name;
  }
}

TEST_P(Lora, AMergedModelIsTheModelWithTheAdapter) {
  const std::string out = folder_ / "merged";
  output_of({"lora", "merge", model_, adapter_, out});
  expect_same(predictions(out), predictions(model_, {"--adapter", adapter_}));
}

TEST_P(Lora, AConvertedAdapterIsTheAdapter) {
  const std::string out = folder_ / "adapter.gguf";
  const Arguments convert = {"lora", "convert", adapter_, out, "--model", model_};
  if (is_dora()) return expect_error(convert, {"DoRA"});
  output_of(convert);
  EXPECT_EQ(predictions(model_, {"--adapter", out}), predictions(model_, {"--adapter", adapter_}));
}

TEST_P(Lora, ANewAdapterChangesNothing) {
  const std::string out = folder_ / "new";
  output_of({"lora", "new", model_, out, "--rank", "3", "--alpha", "6"});
  EXPECT_EQ(predictions(model_, {"--adapter", out}), predictions(model_));
}

TEST_P(Lora, RefusesWhatIsNotAnAdapterOfTheModel) {
  expect_error({"predict", model_, "--ids", "1", "--adapter", adapter_ + "=x"}, {"PATH=SCALE"});
  expect_error({"predict", model_, "--ids", "1", "--adapter", folder_ / "none"}, {"no such file or folder"});
  expect_error({"predict", golden("falcon"), "--ids", "1", "--adapter", adapter_}, {adapter_});
}

INSTANTIATE_TEST_SUITE_P(Models, Lora, testing::Values("gemma2", "gpt2", "gpt_neox", "llama", "mistral_dora"));

}  // namespace
}  // namespace vitrine::test
