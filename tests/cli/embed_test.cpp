// vitrine embed: the grid, nearest neighbors, analogies, and errors, with the vectors of the default model.
#include "cli/program.h"

namespace vitrine::test {
namespace {

const std::string kModel = VITRINE_SOURCE_DIR "/models/default";

TEST(EmbedCommand, TheGridHasTheCosineOfEveryPair) {
  const Json grid = json_of({"embed", kModel, " girl", " boy", " dog"});
  EXPECT_EQ(grid["ids"].size(), 3U);
  for (std::size_t a = 0; a < 3; ++a) {
    EXPECT_NEAR(grid["cosine"][a][a].get<double>(), 1, 1e-6);
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_EQ(grid["cosine"][a][b], grid["cosine"][b][a]);
      EXPECT_LT(grid["cosine"][a][b].get<double>(), 0.9);
    }
  }
  EXPECT_THAT(output_of({"embed", kModel, " girl", " boy"}), testing::HasSubstr("\" girl\"    1.000"));
}

TEST(EmbedCommand, NeighborsAgreeWithTheGrid) {
  const Json near = json_of({"embed", kModel, " girl", "--top", "4"});
  ASSERT_EQ(near["nearest"].size(), 4U);
  double before = 1;
  for (const Json& x : near["nearest"]) {
    const std::string id = "#" + std::to_string(x["id"].get<int>());
    const Json grid = json_of({"embed", kModel, " girl", id});
    EXPECT_NEAR(grid["cosine"][0][1].get<double>(), x["cosine"].get<double>(), 1e-6) << "by text and by id";
    EXPECT_LE(x["cosine"].get<double>(), before);
    EXPECT_NE(x["id"], near["ids"][0]) << "the word is its own neighbor";
    before = x["cosine"].get<double>();
  }
}

TEST(EmbedCommand, AnAnalogyIsASumAndExcludesItsOwnWords) {
  const Json sum = json_of({"embed", kModel, " girl", "-", " boy", "+", " dad"});
  EXPECT_EQ(sum["ids"].size(), 3U);
  EXPECT_EQ(sum["nearest"].size(), 10U);
  for (const Json& x : sum["nearest"]) EXPECT_EQ(std::count(sum["ids"].begin(), sum["ids"].end(), x["id"]), 0);
  const Json reordered = json_of({"embed", kModel, " dad", "-", " boy", "+", " girl"});
  EXPECT_EQ(reordered["nearest"][0]["id"], sum["nearest"][0]["id"]) << "the order of terms must not matter";
  EXPECT_NE(json_of({"embed", kModel, " girl", "+", " boy", "+", " dad"})["nearest"], sum["nearest"]);
}

TEST(EmbedCommand, ReportsErrorsInOneLine) {
  expect_error({"embed", kModel, ""}, {"[WORD]", "empty"});
  expect_error({"embed", kModel, "Onceupon"}, {"[Onceupon]", "one token", "\"Once\"", "with a leading space"});
  expect_error({"embed", kModel, "#4096"}, {"0 to 4095", "4096"});
  expect_error({"embed", kModel + "/nothing", " girl"}, {"nothing"});
  expect_usage_error({"embed", kModel}, {"WORD"});
  for (const Arguments& words : {Arguments{" girl", "-"}, Arguments{"+"}, Arguments{"-", "+", " girl"}}) {
    Arguments arguments = {"embed", kModel};
    arguments.insert(arguments.end(), words.begin(), words.end());
    expect_usage_error(arguments, {"expected a word after + or -"});
  }
  expect_usage_error({"embed", kModel, " girl", "--top", "0"}, {"--top"});
}

}  // namespace
}  // namespace vitrine::test
