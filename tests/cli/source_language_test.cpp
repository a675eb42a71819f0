// The token of a source text's language, in every command that reads such a text.
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

/// The letters a, b, … are 3, 4, …; a text is followed by </s>, 2, and the token of its language.
class SourceLanguage : public testing::Test {
 protected:
  static constexpr int kEnglish = 29, kFrench = 30;

  SourceLanguage() {
    write_tokenizer(english_, "en_XX");
    write_tokenizer(french_, "fr_XX");
  }
  static void write_tokenizer(const std::string& path, const std::string& usual) {
    Json json = Json::parse(letter_tokenizer());
    Json special = Json::object();
    for (const auto& [piece, id] : {std::pair("en_XX", kEnglish), std::pair("fr_XX", kFrench)}) {
      json["added_tokens"].push_back({{"id", id}, {"content", piece}, {"special", true}});
      json["model"]["vocab"][piece] = id;
      special[piece] = {{"id", piece}, {"ids", {id}}, {"tokens", {piece}}};
    }
    special["</s>"] = {{"id", "</s>"}, {"ids", {2}}, {"tokens", {"</s>"}}};
    const auto token = [](const std::string& piece) { return Json{{"SpecialToken", {{"id", piece}, {"type_id", 0}}}}; };
    const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    json["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", {text, token("</s>"), token(usual)}},
                              {"pair", {text, token("</s>"), token(usual)}},
                              {"special_tokens", special}};
    write_file(path, json.dump());
  }
  Arguments with(Arguments arguments, const Arguments& more) const {
    arguments.insert(arguments.end(), {"--tokenizer", english_});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  const TempFolder folder_;
  const std::string english_ = folder_ / "english.json", french_ = folder_ / "french.json";
  const std::string mbart_ = source_dir() + "/tests/goldens/pairs/mbart";
  const Arguments in_french_ = {"--source-lang", "fr_XX"};
};

TEST_F(SourceLanguage, OfATextThatIsTokenized) {
  EXPECT_EQ(json_of(with({"tokenize", "abc"}, {}))["ids"], Json({3, 4, 5, 2, kEnglish}));
  EXPECT_EQ(json_of(with({"tokenize", "abc"}, in_french_))["ids"], Json({3, 4, 5, 2, kFrench}));
  EXPECT_EQ(json_of(with({"tokenize", "abc", "--no-special"}, in_french_))["ids"], Json({3, 4, 5}));
  expect_error(with({"tokenize", "abc"}, {"--source-lang", "xx_XX"}), {"--source-lang", "no token xx_XX"});
  const std::string without = small_tokenizer(folder_);
  expect_error({"tokenize", "--tokenizer", without, "a", "--source-lang", "fr_XX"}, {"does not mark texts"});
}

TEST_F(SourceLanguage, OfATextThatIsTranslated) {
  const Arguments length = {"--max-tokens", "6"};
  const auto generated = [&](Arguments more) {
    more.insert(more.end(), length.begin(), length.end());
    return json_of(with({"generate", mbart_, "abc"}, more));
  };
  const Json french = generated(in_french_), english = generated({});
  EXPECT_EQ(french["source_ids"], Json({3, 4, 5, 2, kFrench}));
  EXPECT_EQ(english["source_ids"], Json({3, 4, 5, 2, kEnglish}));
  const Json by_ids = json_of({"generate", mbart_, "--ids", "3,4,5,2,30", "--max-tokens", "6"});
  EXPECT_EQ(french["ids"], by_ids["ids"]);

  const Arguments translate = {"translate", mbart_, "-", "--json", "--max-tokens", "6"};
  for (const auto& [more, expected] : {std::pair(in_french_, french), std::pair(Arguments{}, english)}) {
    const Json line = Json::parse(output_of(with(translate, more), {.input = "abc\n"}));
    EXPECT_EQ(line["source_ids"], expected["source_ids"]);
    EXPECT_EQ(line["ids"], expected["ids"]);
  }
}

TEST_F(SourceLanguage, OfTextsThatAreEvaluatedAndEncoded) {
  write_file(folder_ / "source", "abc\nzyx\n");
  write_file(folder_ / "target", "cba\nxyz\n");
  const auto loss = [&](const std::string& tokenizer, const Arguments& more) {
    Arguments all = {"eval", mbart_, folder_ / "source", "--target", folder_ / "target", "--tokenizer", tokenizer};
    all.insert(all.end(), more.begin(), more.end());
    return json_of(all)["loss"].get<double>();
  };
  const std::string fr = "fr_XX", en = "en_XX";
  const double both_english = loss(english_, {}), both_french = loss(french_, {});
  EXPECT_NE(both_english, both_french);
  EXPECT_EQ(loss(english_, {"--source-lang", fr, "--target-lang", fr}), both_french);
  EXPECT_EQ(loss(french_, {"--source-lang", en, "--target-lang", en}), both_english);
  const double to_english = loss(english_, {"--source-lang", fr});
  EXPECT_EQ(to_english, loss(french_, {"--target-lang", en})) << "the language of the sources alone";
  EXPECT_THAT(to_english, testing::AllOf(testing::Ne(both_english), testing::Ne(both_french)));
  expect_error({"eval", mbart_, folder_ / "source", "--target", folder_ / "target", "--tokenizer", english_,
                "--target-lang", "xx_XX"},
               {"--target-lang", "no token xx_XX"});

  const auto packed = [&](const char* out, const std::string& tokenizer, const Arguments& more) {
    Arguments all = {"data",        "pack",     folder_ / "source", "--out",
                     folder_ / out, "--target", folder_ / "target", "--tokenizer",
                     tokenizer};
    all.insert(all.end(), more.begin(), more.end());
    output_of(all);
    std::string bytes;
    for (const char* side : {"/source", "/target"}) {
      for (const auto& file : std::filesystem::directory_iterator(folder_ / out + side))
        bytes += read_file(file.path());
    }
    return bytes;
  };
  EXPECT_EQ(packed("a", english_, {"--source-lang", fr, "--target-lang", fr}), packed("b", french_, {}));
  EXPECT_EQ(packed("c", english_, {"--source-lang", fr}), packed("d", french_, {"--target-lang", en}));
  EXPECT_NE(packed("e", english_, {"--source-lang", fr}),
            packed("f", english_, {"--source-lang", fr, "--target-lang", fr}));

  const Json vector = json_of(with({"encode", mbart_, "abc"}, in_french_));
  EXPECT_EQ(vector["embedding"], json_of({"encode", mbart_, "--ids", "3,4,5,2,30"})["embedding"]);
}

TEST_F(SourceLanguage, OfTextsThatTheServerReads) {
  TestServer server(with({mbart_}, in_french_));
  const auto tokens = [&](const Json& body) { return server.post("/tokenize", body).json()["tokens"]; };
  EXPECT_EQ(tokens({{"prompt", "abc"}}), Json({3, 4, 5, 2, kFrench}));
  EXPECT_EQ(tokens({{"prompt", "abc"}, {"source_lang", "en_XX"}}), Json({3, 4, 5, 2, kEnglish}));
  EXPECT_EQ(tokens({{"prompt", "abc"}, {"source_lang", "en_XX"}, {"add_special_tokens", false}}), Json({3, 4, 5}));
  const auto vector = [&](const Json& body) { return server.post("/v1/embeddings", body).json()["data"][0]; };
  const Json english = vector({{"input", {3, 4, 5, 2, kEnglish}}}), french = vector({{"input", "abc"}});
  EXPECT_EQ(vector({{"input", "abc"}, {"source_lang", "en_XX"}})["embedding"], english["embedding"]);
  EXPECT_NE(french["embedding"], english["embedding"]);
  for (const char* path : {"/tokenize", "/v1/embeddings"}) {
    const HttpResponse bad = server.post(path, {{"prompt", "a"}, {"input", "a"}, {"source_lang", "xx_XX"}});
    EXPECT_EQ(bad.status, 400);
  }
  const Json error = server.post("/tokenize", {{"prompt", "a"}, {"source_lang", "xx_XX"}}).json()["error"];
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("no token xx_XX"));
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
