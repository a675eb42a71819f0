// vitrine score: its output, and errors about its files.
#include "cli/program.h"

namespace vitrine::test {
namespace {

TEST(ScoreCommand, ReportsTheScoresOfAGolden) {
  const Json corpus = Json::parse(read_file(source_dir() + "/tests/goldens/score.json"))["corpora"][0];
  const TempFolder folder;
  std::string hypotheses, references;
  for (const Json& pair : corpus["pairs"]) {
    hypotheses += pair[0].get<std::string>() + "\r\n";
    references += pair[1].get<std::string>() + "\n";
  }
  references.pop_back();  // the last line needs no line break
  const std::string hyp = folder / "hyp.txt", ref = folder / "ref.txt";
  write_file(hyp, hypotheses);
  write_file(ref, references);
  for (const Json& golden : corpus["scores"]) {
    Arguments arguments = {"score", hyp, ref, "--tokenize", golden["tokenize"].get<std::string>()};
    if (golden["lowercase"].get<bool>()) arguments.push_back("--lowercase");
    const Json json = json_of(arguments);
    EXPECT_EQ(json.size(), 6U);
    EXPECT_EQ(json["signature"], golden["signature"]);
    for (const char* key : {"bleu", "brevity_penalty", "chrf", "chrf++"}) {
      EXPECT_NEAR(json[key].get<double>(), golden[key].get<double>(), 1e-9) << key;
    }
    for (const std::size_t i : {0U, 1U, 2U, 3U}) {
      EXPECT_NEAR(json["precisions"][i].get<double>(), golden["precisions"][i].get<double>(), 1e-9) << i;
    }
  }
  const std::string text = output_of({"score", hyp, ref});
  EXPECT_EQ(json_of({"score", hyp, ref})["signature"], "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp");
  EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("BLEU"), testing::HasSubstr("chrF++"),
                                   testing::HasSubstr("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")));
}

TEST(ScoreCommand, ReportsErrors) {
  const TempFolder folder;
  const std::string two = folder / "two.txt", three = folder / "three.txt", none = folder / "none.txt";
  const std::string broken = folder / "broken.txt";
  write_file(two, "a\nb\n");
  write_file(three, "a\n\nb");
  write_file(none, "");
  write_file(broken, "a\n\xC3(\n");
  expect_error({"score", two, three}, {"two.txt", "three.txt", "expected 3 lines", "got 2"});
  expect_error({"score", none, two}, {"none.txt", "empty"});
  expect_error({"score", two, none}, {"none.txt", "empty"});
  expect_error({"score", two, broken}, {"broken.txt:2", "UTF-8"});
  expect_error({"score", two, folder / "missing.txt"}, {"missing.txt"});
  expect_usage_error({"score", two});
  expect_usage_error({"score", two, two, "--tokenize", "zh"}, {"--tokenize"});
}

}  // namespace
}  // namespace vitrine::test
