// vitrine tokenize and detokenize.
#include "cli/program.h"

namespace vitrine::test {
namespace {

class Tokenize : public testing::Test {
 protected:
  Json ids(const std::string& text, const std::string& input = "") const {
    return json_of({"tokenize", tokenizer_, "--", text}, {.input = input})["ids"];
  }
  const TempFolder folder_;
  const std::string tokenizer_ = small_tokenizer(folder_);
};

TEST_F(Tokenize, PrintsATableOrJson) {
  EXPECT_EQ(output_of({"tokenize", tokenizer_, "a b"}),
            "       1  \"\\n<s>\\n\"\n     259  \" a\"\n     260  \" b\"\n");
  EXPECT_EQ(json_of({"tokenize", tokenizer_, "a b"}),
            Json({{"ids", {1, 259, 260}}, {"pieces", {"\n<s>\n", " a", " b"}}}));
  EXPECT_EQ(json_of({"tokenize", tokenizer_, "a b", "--no-special"})["ids"], Json({259, 260}));
  EXPECT_EQ(output_of({"tokenize", tokenizer_, "", "--no-special"}), "");
  EXPECT_EQ(ids(""), Json({1}));
}

TEST_F(Tokenize, AnyTextIsReadCompletely) {
  EXPECT_EQ(ids("[a, b]"), Json({1, 262, 266, 263, 265, 260, 267}));
  EXPECT_EQ(ids("[a,b]"), Json({1, 262, 266, 263, 265, 264, 267}));
  std::vector<std::string> texts = {"-5",       "--", "++", "-h", "--help", "{}",   "%%",     "tokenize",
                                    "generate", "=",  "'",  "\"", "a=b",    "\x01", "a\xFFz", "\xF0\x9F\xA6\x99",
                                    "[]",       "\n"};
  for (const std::string& text : texts) EXPECT_EQ(ids(text), ids("-", text)) << text;
  for (const std::string text : {"-5", "{}", "[]", "tokenize", "[a,b]"}) {
    EXPECT_EQ(json_of({"tokenize", tokenizer_, text})["ids"], ids(text)) << text;
  }
  EXPECT_EQ(ids("\xF0\x9F\xA6\x99").size(), 6U) << "four bytes";
}

TEST_F(Tokenize, StdinMayContainAnyBytes) {
  EXPECT_EQ(ids("-", std::string("a\0b", 3)), Json({1, 259, 3, 264}));
  EXPECT_EQ(ids("-", "a\xFF"), Json({1, 259, 258}));
  EXPECT_EQ(ids("-", ""), Json({1}));
}

TEST_F(Tokenize, ASinglePositionalIsText) {
  const Json expected = ids("a");
  EXPECT_EQ(json_of({"tokenize", "--tokenizer", tokenizer_, "a"})["ids"], expected);
  EXPECT_EQ(json_of({"tokenize", "model", "a", "--tokenizer", tokenizer_})["ids"], expected);
  expect_usage_error({"tokenize", tokenizer_, "a", "b", "c"}, {"b c", "quote"});
  expect_usage_error({"tokenize"}, {"TEXT"});
  expect_usage_error({"tokenize", tokenizer_, "a", "--ids", "1"}, {"--ids"});
  expect_usage_error({"tokenize", tokenizer_, "-hello"}, {"-hello", "--"});
  expect_usage_error({"tokenize", tokenizer_, "++"}, {"++"});
}

TEST_F(Tokenize, LinesAreJsonStrings) {
  const std::string out = output_of({"tokenize", "--lines", tokenizer_}, {.input = "\"a\"\n\"b\\u0000\"\r\n\"\""});
  EXPECT_EQ(out,
            "{\"ids\":[1,259],\"pieces\":[\"\\n<s>\\n\",\" a\"]}\n"
            "{\"ids\":[1,260,3],\"pieces\":[\"\\n<s>\\n\",\" b\",\"<0x00>\"]}\n"
            "{\"ids\":[1],\"pieces\":[\"\\n<s>\\n\"]}\n");
  EXPECT_EQ(output_of({"tokenize", "--lines", "--tokenizer", tokenizer_}, {.input = "\"a\"\n"}),
            "{\"ids\":[1,259],\"pieces\":[\"\\n<s>\\n\",\" a\"]}\n");
  EXPECT_EQ(output_of({"tokenize", "--lines", tokenizer_}), "");
}

TEST_F(Tokenize, ABadLineIsNamed) {
  for (const std::string bad : {"{\"b\":1}", "a", "\"open", "\"\xFF\"", "", "1", "\"a\" \"b\""}) {
    const Outcome o = run_program({"tokenize", "--lines", tokenizer_}, {.input = "\"a\"\n" + bad + "\n\"c\"\n"});
    EXPECT_EQ(o.status, 1) << bad;
    EXPECT_EQ(o.out, "{\"ids\":[1,259],\"pieces\":[\"\\n<s>\\n\",\" a\"]}\n") << bad;
    EXPECT_THAT(o.err, testing::StartsWith("vitrine: error: [stdin, line 2] ")) << bad;
    EXPECT_EQ(o.err.find('\n'), o.err.size() - 1);
  }
  expect_usage_error({"tokenize", "--lines", tokenizer_, "text"}, {"--lines"});
}

TEST_F(Tokenize, LinesStayInOrderOnAnyNumberOfThreads) {
  std::string lines;
  for (int i = 0; i < 30'000; ++i) lines += "\"" + std::string(static_cast<std::size_t>(i % 97), 'a') + "b\"\n";
  write_file(folder_ / "lines", lines);
  const std::string expected = output_of({"tokenize", "--lines", tokenizer_, "--threads", "1"}, {.input = lines});
  EXPECT_EQ(std::count(expected.begin(), expected.end(), '\n'), 30'000);
  for (const char* threads : {"2", "5"}) {
    EXPECT_EQ(output_of({"tokenize", "--lines", tokenizer_, "--threads", threads}, {.input = lines}), expected);
    EXPECT_EQ(output_of({"tokenize", "--lines", tokenizer_, "--threads", threads}, {.input_path = folder_ / "lines"}),
              expected);
    write_file(folder_ / "bad", lines + "oops\n" + lines + "again\n");
    const Outcome o =
        run_program({"tokenize", "--lines", tokenizer_, "--threads", threads}, {.input_path = folder_ / "bad"});
    EXPECT_EQ(o.status, 1);
    EXPECT_EQ(o.out, expected) << "the lines before the bad one";
    EXPECT_EQ(o.err, "vitrine: error: [stdin, line 30001] not valid JSON at byte 1\n");
  }
}

TEST_F(Tokenize, EachLineIsAnsweredAtOnce) {
  Program program({"tokenize", "--lines", tokenizer_, "--threads", "4"}, {.input = "\"a\"\n\"b", .hold_input = true});
  program.wait_for_output(41);
  program.wait_until_it_reads();
  const Outcome o = program.finish();
  EXPECT_THAT(o.out, testing::StartsWith("{\"ids\":[1,259],\"pieces\":[\"\\n<s>\\n\",\" a\"]}\n"));
  EXPECT_EQ(o.err, "vitrine: error: [stdin, line 2] not valid JSON at byte 3\n");
}

TEST_F(Tokenize, ExplainsInATable) {
  EXPECT_EQ(output_of({"tokenize", tokenizer_, "a\x1B[2Jb ", "--no-special", "--explain"}),
            "text            a\\x1B[2Jb␣\n"
            "word            a\\x1B[2Jb␣\n"
            "  symbols       ␣ a <0x1B> [ <0x32> <0x4A> b ␣\n"
            "  score 2       ␣ + a → ␣a                        ␣a <0x1B> [ <0x32> <0x4A> b ␣\n"
            "  ids           259 ␣a   30 <0x1B>   266 [   53 <0x32>   77 <0x4A>   264 b   262 ␣\n"
            "ids                 259 ␣a\n"
            "                     30 <0x1B>\n"
            "                    266 [\n"
            "                     53 <0x32>\n"
            "                     77 <0x4A>\n"
            "                    264 b\n"
            "                    262 ␣\n");
}

TEST_F(Tokenize, ExplainsAsJson) {
  const Json e = json_of({"tokenize", tokenizer_, "a b", "--explain"});
  EXPECT_EQ(e["ids"], ids("a b"));
  EXPECT_EQ(e["is_cut"], false);
  ASSERT_EQ(e["steps"].size(), 2U);
  EXPECT_EQ(e["steps"][0], Json({{"step", "text"}, {"text", "a b"}, {"bytes", 3}}));
  const Json& word = e["steps"][1];
  EXPECT_EQ(word["rule"], "merges by score");
  EXPECT_EQ(word["ids"], e["ids"]);
  EXPECT_EQ(word["symbols"].size(), 5U);
  EXPECT_EQ(word["merges"].size(), 2U);
  EXPECT_EQ(word["merges"][0]["result"], " a");
  EXPECT_EQ(Json::parse(output_of({"tokenize", "--lines", "--explain", tokenizer_}, {.input = "\"a b\"\n"})), e);
}

TEST_F(Tokenize, DetokenizeTakesIdsInAnyForm) {
  EXPECT_EQ(output_of({"detokenize", tokenizer_, "1", "259", "260"}), "a b");
  EXPECT_EQ(output_of({"detokenize", tokenizer_, "1,259", "260"}), "a b");
  EXPECT_EQ(json_of({"detokenize", tokenizer_, "1", "259", "260"}), Json({{"text", "a b"}}));
  EXPECT_EQ(output_of({"detokenize", "--tokenizer", tokenizer_, "259", "260"}), " a b")
      << "the first positional is an id";
  EXPECT_EQ(output_of({"detokenize", tokenizer_, "0259"}), output_of({"detokenize", tokenizer_, "259"}));
  EXPECT_EQ(output_of({"detokenize", tokenizer_, "3", "258"}), std::string("\0\xFF", 2));
  EXPECT_EQ(json_of({"detokenize", tokenizer_, "258"})["text"], "\xEF\xBF\xBD") << "invalid UTF-8";
  EXPECT_EQ(output_of({"detokenize", tokenizer_}), "");
}

TEST(Detokenize, CleansUpSpacesWhereTheFolderSaysSo) {
  const TempFolder folder;
  write_file(folder / "config.json", R"({"model_type": "bert"})");
  write_file(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhe\n'\ns\nso\n.\n");
  for (const auto& [value, text] :
       {std::pair("true", "[CLS] he's so. [SEP]"), std::pair("false", "[CLS] he ' s so. [SEP]")}) {
    write_file(folder / "tokenizer_config.json",
               fmt::format(R"({{"tokenizer_class": "BertTokenizer", "clean_up_tokenization_spaces": {}}})", value));
    EXPECT_EQ(output_of({"detokenize", folder / "", "2,5,6,7,8,9,3"}), text);
  }
}

TEST_F(Tokenize, DetokenizeRefusesInvalidIds) {
  expect_error({"detokenize", tokenizer_, "268"}, {"267", "268"});
  expect_error({"detokenize", tokenizer_, "-1"}, {"267", "-1"});
  expect_error({"detokenize", tokenizer_, "--", "-1"}, {"-1"});
  for (const std::string bad : {"x", "1.5", "9999999999", "1,,2", "0x1", ""}) {
    expect_usage_error({"detokenize", tokenizer_, bad}, {"1,2,3"});
  }
  expect_usage_error({"detokenize"}, {"ID"});
}

TEST_F(Tokenize, BadFiles) {
  expect_error({"tokenize", "/nowhere", "a"}, {"/nowhere"});
  expect_error({"tokenize", golden("gpt2"), "a"}, {"gpt2", "tokenizer"});
  write_file(folder_ / "cut.bin", read_file(tokenizer_).substr(0, 1000));
  expect_error({"tokenize", folder_ / "cut.bin", "a"}, {"cut.bin", "truncated"});
  expect_error({"detokenize", folder_ / "cut.bin", "1"}, {"cut.bin"});
}

}  // namespace
}  // namespace vitrine::test
