// The commands of encoder–decoders, and vectors of texts.
#include "cli/program.h"

namespace vitrine::test {
namespace {

std::string pair_golden(const std::string& name) { return source_dir() + "/tests/goldens/pairs/" + name; }
std::string masked_golden(const std::string& name) { return source_dir() + "/tests/goldens/masked/" + name; }

TEST(Translate, AnswersEveryLineInOrder) {
  const std::string lines = "[5,6,7]\n[8]\n[9,10,11,12]\n[]\n[8]\n";
  const std::vector<std::string> command = {"translate", pair_golden("bart"), "--lines", "--beam",
                                            "3",         "--max-tokens",      "5"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = command;
    all.insert(all.end(), more.begin(), more.end());
    return output_of(all, {.input = lines});
  };
  const std::string answers = with({});
  EXPECT_EQ(std::count(answers.begin(), answers.end(), '\n'), 5);
  for (const char* batch : {"1", "2", "32"}) EXPECT_EQ(with({"--batch", batch, "--threads", "2"}), answers);
  std::istringstream objects(with({"--json", "--n-best", "2"}));
  std::vector<Json> parsed;
  for (std::string line; std::getline(objects, line);) parsed.push_back(Json::parse(line));
  ASSERT_EQ(parsed.size(), 5U);
  EXPECT_EQ(parsed[0]["source_ids"], Json({5, 6, 7}));
  EXPECT_EQ(parsed[0]["hypotheses"].size(), 2U);
  EXPECT_EQ(parsed[0]["score"], parsed[0]["hypotheses"][0]["score"]);
  EXPECT_EQ(parsed[1]["ids"], parsed[4]["ids"]);
  EXPECT_EQ(parsed[3]["ids"], Json::array()) << "nothing to translate";

  const Json alone = json_of({"generate", pair_golden("bart"), "--ids", "5,6,7", "--beam", "3", "--max-tokens", "5"});
  EXPECT_EQ(alone["ids"], parsed[0]["ids"]);
  EXPECT_EQ(alone["score"], parsed[0]["score"]);
}

TEST(Translate, NamesTheLineOfAnError) {
  const std::vector<std::string> command = {"translate", pair_golden("bart"), "--lines"};
  expect_error(command, {"line 2", "JSON"}, {.input = "[5]\n[6,\n"});
  expect_error(command, {"line 1", "list of ids"}, {.input = "{\"a\": 1}\n"});
  std::string longer = "[5";
  for (int i = 0; i < 29; ++i) longer += ",5";
  expect_error(command, {"line 2", "context is 26"}, {.input = "[5]\n" + longer + "]\n"});
  expect_error({"translate", golden("gpt2"), "--lines"}, {"no encoder"}, {.input = "[5]\n"});
}

TEST(Targets, AreRequiredAndRefused) {
  const std::string bart = pair_golden("bart");
  expect_error({"logits", bart, "--ids", "5,6", "--out", "/dev/null"}, {"--target"});
  expect_error({"logits", golden("gpt2"), "--ids", "5,6", "--target-ids", "5", "--out", "/dev/null"}, {"no encoder"});
  expect_error({"predict", bart, "--ids", "5", "--target-ids", "2,99"}, {"99"});
  expect_error({"generate", golden("gpt2"), "--ids", "5", "--prefix-ids", "6"}, {"no encoder"});
  expect_error({"generate", bart, "--ids", "5", "--beam", "2", "--n-best", "3"}, {"1 to 2 hypotheses"});
  expect_error({"generate", bart, "--ids", "5", "--beam", "2", "--temperature", "1"}, {"do not sample"});
  expect_error({"logits", bart, "--ids", "5", "--target-ids", "2", "--types", "0", "--out", "/dev/null"}, {"types"});
  expect_error({"logits", masked_golden("bert"), "--ids", "5,6", "--types", "0", "--out", "/dev/null"}, {"2 types"});
  expect_error({"grad", bart, "--ids", "5", "--target-ids", "2,5", "--labels=5", "--out", "/dev/null"}, {"2 labels"});
  expect_error({"grad", bart, "--ids", "5", "--target-ids", "2,5", "--next-sentence", "1", "--out", "/dev/null"},
               {"next sentence"});
  expect_error({"eval", bart, source_dir() + "/README.md", "--tokenizer", source_dir() + "/models/default"},
               {"--target"});
}

TEST(Targets, APrefixContinuesWhatTheDecoderWrites) {
  const std::string bart = pair_golden("bart");
  const Json free = json_of({"generate", bart, "--ids", "5,6,7", "--max-tokens", "6"});
  std::vector<std::int32_t> ids = free["ids"];
  ASSERT_GE(ids.size(), 3U);
  const std::string prefix = std::to_string(ids[0]) + "," + std::to_string(ids[1]);
  const Json rest = json_of({"generate", bart, "--ids", "5,6,7", "--prefix-ids", prefix, "--max-tokens", "4"});
  EXPECT_EQ(rest["ids"][0], ids[2]);
  EXPECT_EQ(free["source_ids"], Json({5, 6, 7}));
}

/// eval --beam scores what translate writes.
TEST(EvalOfPairs, ScoresTheTranslations) {
  const TempFolder folder;
  const std::string bart = pair_golden("bart"), file = folder / "tokenizer.json", source = folder / "source",
                    target = folder / "target", written = folder / "written";
  write_file(file, letter_tokenizer());
  write_file(source, "abc\nzyx\nhello\n");
  write_file(target, "cba\nxyz\nworld\n");
  const Arguments common = {"--tokenizer", file, "--beam", "3"};
  const auto with = [&](Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), common.begin(), common.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  write_file(written, output_of(with({"translate", bart, "-"}, {}), {.input = "abc\nzyx\nhello\n"}));
  const Json scored = json_of({"score", written, target, "--tokenize", "char"});
  const Json found = json_of(with({"eval", bart, source, "--target", target}, {"--tokenize", "char"}));
  EXPECT_EQ(found["bleu"], scored["bleu"]);
  EXPECT_EQ(found["chrf++"], scored["chrf++"]);
  EXPECT_EQ(found["pairs"], 3);
  EXPECT_THAT(output_of(with({"eval", bart, source, "--target", target}, {})), testing::HasSubstr("BLEU"));
  write_file(target, "cba\nxyz\n");
  expect_error(with({"eval", bart, source, "--target", target}, {}), {"source", "2 lines"});
  expect_error(with({"eval", bart, source}, {}), {"--target"});
}

TEST(Encode, PrintsAVectorForEachText) {
  const std::string bert = masked_golden("bert");
  const Json one = json_of({"encode", bert, "--ids", "5,6,7"});
  EXPECT_EQ(one["ids"], Json({5, 6, 7}));
  EXPECT_EQ(one["embedding"].size(), 24U);
  const TempFolder folder;
  const std::string answers =
      output_of({"encode", bert, "--lines", "--json", "--out", folder / "v.npy"}, {.input = "[5,6,7]\n[8]\n"});
  EXPECT_EQ(Json::parse(answers.substr(0, answers.find('\n')))["embedding"], one["embedding"]);
  EXPECT_EQ(read_file(folder / "v.npy").size(), 128U + 2 * 24 * 4);
  expect_error({"encode", bert, "--ids", "5", "--pool", "pooler"}, {"no pooler"});
  expect_error({"predict", masked_golden("bert"), "--ids", "5", "--pad-to", "1000"}, {"1000"});
}

TEST(Encode, PutsThePromptOfTheFolderBeforeTexts) {
  const TempFolder folder;
  const std::string bert = folder / "bert", file = folder / "tokenizer.json";
  std::filesystem::copy(masked_golden("bert"), bert);
  write_file(file, letter_tokenizer());
  write_file(bert + "/config_sentence_transformers.json",
             R"({"prompts": {"query": "ab", "document": ""}, "default_prompt_name": "query"})");
  const auto encoded = [&](Arguments more, const Launch& launch = {}) {
    more.insert(more.begin(), {"encode", bert, "--tokenizer", file, "--json"});
    return Json::parse(output_of(more, launch));
  };
  EXPECT_EQ(encoded({"c"})["ids"], Json({3, 4, 5})) << "the folder's";
  EXPECT_EQ(encoded({"c", "--prompt-name", "query"}), encoded({"abc", "--prompt-name", "document"}));
  EXPECT_EQ(encoded({"c", "--prompt-name", "document"})["ids"], Json({5}));
  EXPECT_EQ(encoded({"--lines", "--prompt-name", "query"}, {.input = "\"c\"\n"}), encoded({"c"}));
  EXPECT_EQ(encoded({"--ids", "5"})["ids"], Json({5})) << "ids are no text";
  expect_error({"encode", bert, "--tokenizer", file, "c", "--prompt-name", "other"},
               {"--prompt-name", "document, query", "got other"});
  expect_error({"encode", masked_golden("bert"), "--tokenizer", file, "c", "--prompt-name", "query"},
               {"--prompt-name", "there is none"});
}

}  // namespace
}  // namespace vitrine::test
