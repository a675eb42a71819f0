// vitrine generate: continuations, as text and as JSON.
#include "cli/program.h"

namespace vitrine::test {
namespace {

/// The trained model in VITRINE_DATA.
class Stories : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = outside_data("models/stories260K");
    if (folder_.empty()) GTEST_SKIP() << "needs VITRINE_DATA";
  }
  Arguments generate(const std::string& text, const Arguments& more) const {
    Arguments all = {"generate", folder_ + "/stories260K.bin", "--tokenizer", folder_ + "/tok512.bin"};
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), {"--", text});
    return all;
  }
  std::string folder_;
};

TEST_F(Stories, GreedyTextEqualsLlama2c) {
  const std::string expected = read_file(folder_ + "/greedy_200_tokens.txt");
  EXPECT_EQ(output_of(generate("", {"--greedy", "--max-tokens", "200"})), expected);
  EXPECT_EQ(output_of(generate("", {"--temperature", "0", "--max-tokens", "200", "--threads", "3"})), expected);
  const Json json = json_of(generate("", {"--greedy", "--max-tokens", "200"}));
  EXPECT_EQ(json["text"], expected);
  EXPECT_EQ(json["prompt_ids"], Json({1}));
  EXPECT_EQ(json["ids"].size(), 200U);
  EXPECT_EQ(json["finish_reason"], "length");
}

TEST_F(Stories, SpeculationChangesNothingButItsCounts) {
  const std::string text = "Lily had a red ball. Lily had a red ball. Lily had a";
  for (const Arguments& how : {Arguments{"--greedy"}, Arguments{"--temperature", "0.7", "--seed", "3"}}) {
    Arguments plain = how, lookup = how, draft = how;
    plain.insert(plain.end(), {"--max-tokens", "60", "--logprobs", "2", "--speculate", "none"});
    lookup.insert(lookup.end(), {"--max-tokens", "60", "--logprobs", "2"});
    draft.insert(draft.end(), {"--max-tokens", "60", "--logprobs", "2", "--draft", folder_ + "/stories260K.bin"});
    Json expected = json_of(generate(text, plain));
    EXPECT_EQ(expected["speculation"], Json());
    expected.erase("timings");
    expected.erase("seed");
    for (const auto& [arguments, method] : {std::pair(lookup, "lookup"), std::pair(draft, "draft")}) {
      Json found = json_of(generate(text, arguments));
      EXPECT_EQ(found["speculation"]["method"], method);
      EXPECT_GE(found["speculation"]["drafted"], found["speculation"]["accepted"]);
      EXPECT_GE(found["speculation"]["drafted"], found["speculation"]["rounds"]);
      found["speculation"] = nullptr;
      found.erase("timings");
      found.erase("seed");
      EXPECT_EQ(found, expected) << method;
    }
  }
}

TEST_F(Stories, DraftsNeedTheSameVocabulary) {
  const std::string other = source_dir() + "/models/default";
  expect_error(generate("a", {"--draft", other}), {"[--draft] expected the model's vocabulary, but id "});
  expect_usage_error(generate("a", {"--speculate", "draft"}), {"give --draft"});
  expect_usage_error(generate("a", {"--speculate", "lookup", "--draft", other}), {"--speculate lookup uses no draft"});
}

TEST_F(Stories, TextMayComeFromStdin) {
  const Json from_stdin = json_of(generate("-", {"--greedy", "--max-tokens", "20"}), {.input = "Once upon a time"});
  const Json from_argument = json_of(generate("Once upon a time", {"--greedy", "--max-tokens", "20"}));
  EXPECT_EQ(from_stdin["ids"], from_argument["ids"]);
  EXPECT_EQ(from_stdin["prompt_ids"], Json({1, 403, 407, 261, 378}));
}

TEST_F(Stories, AnyTextIsReadCompletely) {
  for (const std::string text : {"[INST] a, b [/INST]", "[a,b]", "-5", "-hello", "--json", "++", "generate", "{}", "%%",
                                 "a=b", "\xF0\x9F\xA6\x99", "a\xFFz", "\"q\"", "--"}) {
    SCOPED_TRACE(text);
    const std::string tokens = folder_ + "/tok512.bin";
    const Json fed = json_of(generate(text, {"--max-tokens", "1"}))["prompt_ids"];
    EXPECT_EQ(fed, json_of({"tokenize", tokens, "-"}, {.input = text})["ids"]);
    EXPECT_GT(fed.size(), 1U);
  }
}

TEST_F(Stories, SpecialTokensMayBeOmitted) {
  EXPECT_EQ(json_of(generate("Once", {"--max-tokens", "1"}))["prompt_ids"], Json({1, 403}));
  EXPECT_EQ(json_of(generate("Once", {"--max-tokens", "1", "--no-special"}))["prompt_ids"], Json({403}));
  EXPECT_EQ(json_of(generate("", {"--max-tokens", "1", "--no-special"}))["prompt_ids"], Json({1}))
      << "BOS is the default prompt";
}

TEST_F(Stories, StopStringsEndTheTextAndAreOmitted) {
  const Arguments options = {"--greedy", "--stop", "!!", "--stop", " girl", "--stop", ", there was a little"};
  EXPECT_EQ(output_of(generate("Once upon a time", options)), "");
  const Json json = json_of(generate("", options));
  EXPECT_EQ(json["text"], "Once upon a time");
  EXPECT_EQ(json["finish_reason"], "stop");
}

TEST_F(Stories, AnErrorAboutOverlongTextNamesBothLengths) {
  std::string words;
  for (int i = 0; i < 100'000; ++i) words += "word ";
  for (const std::string command : {"predict", "generate", "logits", "trace"}) {
    const TempFolder folder;
    Arguments all = {command, folder_ + "/stories260K.bin", "-", "--tokenizer", folder_ + "/tok512.bin"};
    if (command == "logits" || command == "trace") all.insert(all.end(), {"--out", folder / "out"});
    expect_error(all, {"300002", "512"}, {.input = words});
    EXPECT_THAT(folder.files(), testing::IsEmpty());
  }
}

TEST_F(Stories, AModelFileWithoutATokenizerNeedsOne) {
  expect_error({"generate", folder_ + "/stories260K.bin", "Once"}, {"stories260K.bin", "--tokenizer", "--ids"});
  EXPECT_EQ(json_of({"generate", folder_ + "/stories260K.bin", "--ids", "1,403", "--max-tokens", "2"})["text"], "");
}

TEST(Generate, PrintsIdsWithoutATokenizer) {
  const Arguments all = {"generate", golden("gpt2"), "--ids", "1,2", "--greedy", "--max-tokens", "5"};
  const Json json = json_of(all);
  std::set<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"text", "ids", "prompt_ids", "finish_reason", "seed", "sampling",
                                         "speculation", "timings"}));
  EXPECT_EQ(json["prompt_ids"], Json({1, 2}));
  EXPECT_EQ(json["ids"].size(), 5U);
  EXPECT_EQ(json["text"], "");
  EXPECT_TRUE(json["seed"].is_number_unsigned());
  EXPECT_GT(json["timings"]["prefill_tokens_per_s"], 0);
  EXPECT_GT(json["timings"]["decode_tokens_per_s"], 0);
  EXPECT_EQ(output_of(all), joined(json["ids"].get<std::vector<std::int32_t>>()) + "\n");
}

TEST(Generate, EndsAtTheContextOrAtMaxTokens) {
  const Json full = json_of({"generate", golden("gpt2"), "--ids", "1,2", "--greedy"});
  EXPECT_LE(full["ids"].size(), 31U) << "the context is 32; the last token is not fed back";
  const Json none = json_of({"generate", golden("gpt2"), "--ids", "1,2", "--max-tokens", "0"});
  EXPECT_EQ(none["ids"], Json::array());
  EXPECT_EQ(none["finish_reason"], "length");
  expect_error({"generate", golden("gpt2"), "--ids", many_ids(41)}, {"41", "32"});
}

TEST(Generate, SeedReproduces) {
  const Arguments all = {"generate", golden("llama_mha"), "--ids", "3", "--temperature", "30", "--top-k", "0"};
  const auto run = [&](const std::string& seed) {
    Arguments with_seed = all;
    if (!seed.empty()) with_seed.insert(with_seed.end(), {"--seed", seed});
    return json_of(with_seed);
  };
  const Json drawn = run("");
  EXPECT_EQ(run(drawn["seed"].dump())["ids"], drawn["ids"]);
  EXPECT_EQ(run("18446744073709551615")["seed"], 18446744073709551615ULL);
  std::set<std::string> texts;
  for (const char* seed : {"1", "2", "3", "4"}) texts.insert(run(seed)["ids"].dump());
  EXPECT_GT(texts.size(), 1U);
}

TEST(Generate, LogprobsListTheMostLikelyTokens) {
  const Json json =
      json_of({"generate", golden("gpt2"), "--ids", "1,2", "--greedy", "--max-tokens", "3", "--logprobs", "2"});
  ASSERT_EQ(json["logprobs"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& token = json["logprobs"][i];
    EXPECT_EQ(token["id"], json["ids"][i]);
    ASSERT_EQ(token["top"].size(), 2U);
    EXPECT_EQ(token["top"][0]["id"], token["id"]);
    EXPECT_EQ(token["top"][0]["logprob"], token["logprob"]);
    EXPECT_LE(token["logprob"], 0);
    EXPECT_TRUE(token["top"][1].contains("piece"));
  }
}

TEST(Generate, StopStringsAreLiteral) {
  const TempFolder folder;
  const std::string model = endless_model(folder), tokenizer = small_tokenizer(folder);
  const Arguments all = {"generate", model, "--ids", "1", "--tokenizer", tokenizer, "--max-tokens", "40", "--greedy"};
  const std::string text = output_of(all);
  ASSERT_GT(text.size(), 20U);
  std::string stop;  // two bytes of the text without NUL, which an argument cannot contain
  for (std::size_t at = 5; stop.empty() && at + 2 < text.size(); ++at) {
    if (text.substr(at, 2).find('\0') == std::string::npos) stop = text.substr(at, 2);
  }
  ASSERT_FALSE(stop.empty());
  for (const std::string other : {"{}", "[a,b]", "-x", "%%", "--json"}) {
    Arguments with_stop = all;
    with_stop.insert(with_stop.end(), {"--stop", other, "--stop", stop});
    EXPECT_EQ(output_of(with_stop), text.substr(0, text.find(stop))) << other;
    EXPECT_EQ(json_of(with_stop)["finish_reason"], "stop");
  }
  expect_error({"generate", model, "--ids", "1", "--tokenizer", tokenizer, "--stop", ""}, {"[stop]"});
  expect_error({"generate", model, "--ids", "1", "--stop", "a"}, {"tokenizer"});
}

TEST(Generate, DefaultsComeFromTheModel) {
  const TempFolder folder;
  const std::string model = endless_model(folder);
  write_file(model + "/generation_config.json", R"({"do_sample": false})");
  const Arguments all = {"generate", model, "--ids", "5", "--max-tokens", "30"};
  const std::string greedy = output_of({"generate", model, "--ids", "5", "--max-tokens", "30", "--greedy"});
  EXPECT_EQ(output_of(all), greedy);
  const Arguments sampled = {"generate",      model, "--ids",  "5", "--max-tokens", "30",
                             "--temperature", "50",  "--seed", "1", "--top-k",      "0"};
  EXPECT_NE(output_of(sampled), greedy);
}

TEST(Generate, StopStringsOfTheModelApplyToIds) {
  const TempFolder folder;
  const std::string model = endless_model(folder);
  const std::string tokenizer = small_tokenizer(folder);
  const Arguments ids = {"generate", model, "--ids", "5", "--max-tokens", "12", "--greedy", "--json"};
  const Json whole = json_of(ids);
  Arguments with_text = ids;
  with_text.insert(with_text.end(), {"--tokenizer", tokenizer});
  const auto text = json_of(with_text)["text"].get<std::string>();
  ASSERT_GT(text.size(), 3);
  std::filesystem::copy(tokenizer, model + "/tokenizer.bin");
  write_file(model + "/generation_config.json", Json({{"stop_strings", {text.substr(text.size() / 2, 1)}}}).dump());
  const Json stopped = json_of(ids);
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_LT(stopped["ids"].size(), whole["ids"].size());
  const std::string shown = output_of({"generate", model, "--ids", "5", "--max-tokens", "12", "--greedy"});
  EXPECT_EQ(shown, fmt::format("{}\n", fmt::join(stopped["ids"].get<std::vector<int>>(), ",")));
}

TEST(Generate, BadSamplingOptions) {
  for (const auto& [option, value, where] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{"--temperature", "-1", "temperature"},
                                                                      {"--top-p", "-1", "top_p"},
                                                                      {"--top-p", "2", "top_p"},
                                                                      {"--top-k", "-2", "top_k"},
                                                                      {"--min-p", "7", "min_p"},
                                                                      {"--repeat-penalty", "0", "repeat"}}) {
    expect_error({"generate", golden("gpt2"), "--ids", "1", option, value}, {where, value});
    expect_error({"generate", golden("gpt2"), "--ids", "1", option + "=" + value}, {where, value});
  }
}

class DefaultModel : public testing::Test {
 protected:
  /// A copy of the program in a separate folder.
  std::string program_at(const std::string& place) const {
    const std::filesystem::path path = folder_ / place;
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::copy_file(VITRINE_PROGRAM, path);
    return path.string();
  }
  const TempFolder folder_;
};

TEST_F(DefaultModel, IsFoundRelativeToTheProgram) {
  const std::string built = program_at("build/vitrine"), installed = program_at("prefix/bin/vitrine");
  const Arguments ids = {"generate", "--ids", "1,2", "--greedy"};
  expect_error(ids, {"[MODEL]", "default model"}, {.program = built});

  std::filesystem::create_directories(folder_ / "models");
  std::filesystem::copy(golden("gpt2"), folder_ / "models/default");
  std::filesystem::create_directories(folder_ / "prefix/share/vitrine/models");
  std::filesystem::copy(golden("gpt2"), folder_ / "prefix/share/vitrine/models/default");
  const std::string expected = output_of({"generate", golden("gpt2"), "--ids", "1,2", "--greedy"});
  EXPECT_EQ(output_of(ids, {.program = built}), expected);
  EXPECT_EQ(output_of(ids, {.program = installed}), expected);

  std::filesystem::rename(small_tokenizer(folder_), folder_ / "models/default/tokenizer.bin");
  EXPECT_EQ(json_of({"tokenize", "a b"}, {.program = built})["ids"], Json({1, 259, 260}));
  EXPECT_EQ(output_of({"tokenize", "--lines"}, {.input = "\"a\"", .program = built}).substr(0, 15),
            "{\"ids\":[1,259],");
  EXPECT_EQ(output_of({"detokenize", "1", "259"}, {.program = built}), "a");
}

TEST_F(DefaultModel, TheOneInTheRepositoryRuns) {
  if (!std::filesystem::exists(source_dir() + "/models/default/config.json")) GTEST_SKIP() << "no default model";
  const std::string program = program_at("build/vitrine");
  std::filesystem::create_symlink(source_dir() + "/models", folder_ / "models");
  const Outcome o = run_program({"generate", "--json", "--max-tokens", "3", "The"}, {.program = program});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(Json::parse(o.out, nullptr, false).contains("ids")) << o.out;
}

}  // namespace
}  // namespace vitrine::test
