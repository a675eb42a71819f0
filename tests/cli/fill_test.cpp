// vitrine fill: the most likely tokens in place of masks.
#include "cli/program.h"

namespace vitrine::test {
namespace {

std::string masked_golden() { return source_dir() + "/tests/goldens/masked/bert"; }

TEST(Fill, RanksTheTokensAtEveryMask) {
  const Json json = json_of({"fill", masked_golden(), "--ids", "5,4,7,4,9", "--mask-id", "4", "--top", "3"});
  EXPECT_EQ(json["ids"], Json({5, 4, 7, 4, 9}));
  ASSERT_EQ(json["masks"].size(), 2U);
  const Json all = json_of({"predict", masked_golden(), "--ids", "5,4,7,4,9", "--top", "3"});
  for (const std::size_t i : {0U, 1U}) {
    const Json& mask = json["masks"][i];
    EXPECT_EQ(mask["position"], 1 + 2 * i);
    EXPECT_EQ(mask["top"], all["tokens"][1 + 2 * i]["top"]);
    EXPECT_NEAR(mask["top"][0]["prob"].get<double>(), std::exp(mask["top"][0]["logprob"].get<double>()), 1e-12);
  }
  const std::string table = output_of({"fill", masked_golden(), "--ids", "5,4,7", "--mask-id", "4"});
  EXPECT_THAT(table, testing::HasSubstr("position 1"));
}

TEST(Fill, ReadsTheTypesOfTheTokens) {
  const Arguments text = {masked_golden(), "--ids", "5,4,7,4,9", "--top", "3"};
  const auto top = [&](Arguments more) {
    more.insert(more.end(), text.begin(), text.end());
    return json_of(more);
  };
  const Json json = top({"fill", "--mask-id", "4", "--types", "0,0,0,1,1"});
  const Json all = top({"predict", "--types", "0,0,0,1,1"});
  for (const std::size_t i : {0U, 1U}) EXPECT_EQ(json["masks"][i]["top"], all["tokens"][1 + 2 * i]["top"]);
  EXPECT_NE(json["masks"], top({"fill", "--mask-id", "4"})["masks"]);
  const auto refuse = [](const std::string& model, const std::string& types, const std::string& message) {
    expect_error({"fill", model, "--ids", "5,4,7", "--mask-id", "4", "--types", types}, {"type", message});
  };
  refuse(masked_golden(), "0,1", "3 types");
  refuse(masked_golden(), "0,1,9", "got 9");
  refuse(source_dir() + "/tests/goldens/masked/distilbert", "0,0,1", "no types");
}

TEST(Fill, RefusesWhatHasNoMasks) {
  expect_error({"fill", masked_golden(), "--ids", "5,7", "--mask-id", "4"}, {"no mask", "4"});
  expect_error({"fill", masked_golden(), "--ids", "5,7"}, {"--mask-id"});
  expect_error({"fill", golden("gpt2"), "--ids", "5,7", "--mask-id", "7"}, {"next token"});
  expect_error({"fill", masked_golden(), "--ids", "5,99", "--mask-id", "5"}, {"99"});
}

TEST(Fill, AModelThatSeesLaterTokensHasNoCache) {
  const Json info = json_of({"info", masked_golden()});
  EXPECT_FALSE(info["account"].contains("decode"));
  EXPECT_TRUE(info["account"].contains("train"));
  EXPECT_EQ(info["kv_bytes_per_token"], 0);
  EXPECT_EQ(info["account"]["prefill"]["memory"]["kv_cache"], 0);
  EXPECT_EQ(output_of({"info", masked_golden()}).find("decode"), std::string::npos);
  expect_error({"info", masked_golden(), "--phase", "decode"}, {"later tokens"});
}

TEST(Fill, AModelThatSeesLaterTokensDoesNotContinueTexts) {
  expect_error({"generate", masked_golden(), "--ids", "5,7"}, {"later tokens"});
  expect_error({"grad", masked_golden(), "--ids", "5,7", "--out", "/dev/null"}, {"later tokens"});
}

}  // namespace
}  // namespace vitrine::test
