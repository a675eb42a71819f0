// vitrine predict: the table and the JSON of the most likely next tokens.
#include <cmath>

#include "cli/program.h"

namespace vitrine::test {
namespace {

TEST(Predict, JsonRanksEveryPrefix) {
  const Json json = json_of({"predict", golden("gemma2"), "--ids", "2,5,40", "--top", "3"});
  ASSERT_EQ(json["tokens"].size(), 3U);
  double last = 0;
  for (const Json& token : json["tokens"]) {
    ASSERT_EQ(token["top"].size(), 3U);
    for (const Json& top : token["top"]) {
      EXPECT_NEAR(std::exp(top["logprob"].get<double>()), top["prob"].get<double>(), 1e-12);
      if (&top != &token["top"][0]) {
        EXPECT_LE(top["prob"].get<double>(), last);
      }
      last = top["prob"].get<double>();
    }
  }
  EXPECT_EQ(json["tokens"][2]["id"], 40);
  EXPECT_EQ(json["tokens"][2]["piece"], "") << "no tokenizer";

  // The last prefix is the prompt of generate.
  const Json generated =
      json_of({"generate", golden("gemma2"), "--ids", "2,5,40", "--logprobs", "3", "--max-tokens", "1", "--greedy"});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(generated["logprobs"][0]["top"][i]["id"], json["tokens"][2]["top"][i]["id"]);
    EXPECT_EQ(generated["logprobs"][0]["top"][i]["logprob"], json["tokens"][2]["top"][i]["logprob"]);
  }
}

TEST(Predict, TopDefaultsToTenAndIsAtMostTheVocabulary) {
  EXPECT_EQ(json_of({"predict", golden("gpt2"), "--ids", "1"})["tokens"][0]["top"].size(), 10U);
  EXPECT_EQ(json_of({"predict", golden("gpt2"), "--ids", "1", "--top", "1000"})["tokens"][0]["top"].size(), 43U);
  for (const char* bad : {"0", "-1", "x"}) expect_usage_error({"predict", golden("gpt2"), "--ids", "1", "--top", bad});
}

TEST(Predict, TheTableHasAColumnForEachPrefix) {
  const std::string table = output_of({"predict", golden("gpt2"), "--ids", "7,8,9,10,11", "--top", "2"});
  const std::size_t second = table.find("\n\n");
  ASSERT_NE(second, std::string::npos) << "prefixes that do not fit into the width must follow in a second table";
  const std::string first = table.substr(0, second);
  EXPECT_THAT(first, testing::AllOf(testing::HasSubstr("… #7 "), testing::HasSubstr("… #9 "), testing::HasSubstr("%")));
  EXPECT_THAT(table.substr(second), testing::AllOf(testing::HasSubstr("… #10 "), testing::HasSubstr("… #11 ")));
  EXPECT_THAT(first, testing::ContainsRegex("\n1  #[0-9]+ +[0-9]+\\.[0-9]  #"));
  EXPECT_EQ(table.find('\x1B'), std::string::npos) << "color without a terminal";
}

TEST(Predict, PiecesAreQuoted) {
  const std::string folder = outside_data("models/stories260K");
  if (folder.empty()) GTEST_SKIP() << "needs VITRINE_DATA";
  const Arguments all = {"predict", folder + "/stories260K.bin", "Once upon a", "--tokenizer", folder + "/tok512.bin"};
  const std::string table = output_of(all);
  EXPECT_THAT(table, testing::HasSubstr("… \" upon\""));
  EXPECT_THAT(table, testing::ContainsRegex("\n 1  \" time\" +99\\.[0-9]"));
  EXPECT_EQ(json_of(all)["tokens"][3]["top"][0]["piece"], " time");
}

}  // namespace
}  // namespace vitrine::test
