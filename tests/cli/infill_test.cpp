// vitrine generate --suffix and the server's /infill: the middle of a text, by the default model with other tokens.
#include <filesystem>

#include "cli/http_client.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

/// The default model. Its last pieces, which no other is made of, are the tokens for filling in the middle.
class FillIn : public testing::Test {
 protected:
  FillIn() {
    const std::string from = source_dir() + "/models/default";
    for (const char* name : {"config.json", "model.safetensors", "tokenizer_config.json"}) {
      fs::create_symlink(fs::path(from) / name, folder_ / name);
    }
    Json document = Json::parse(read_file(from + "/tokenizer.json"));
    Json &vocab = document["model"]["vocab"], &merges = document["model"]["merges"];
    for (const char* name : {"<fim_middle>", "<fim_suffix>", "<fim_prefix>"}) {
      const std::string piece = merges.back()[0].get<std::string>() + merges.back()[1].get<std::string>();
      const auto id = vocab[piece].get<std::int32_t>();
      vocab.erase(piece);
      vocab[name] = id;
      merges.erase(merges.size() - 1);
      document["added_tokens"].push_back({{"id", id},
                                          {"content", name},
                                          {"single_word", false},
                                          {"lstrip", false},
                                          {"rstrip", false},
                                          {"normalized", false},
                                          {"special", true}});
      tokens_.insert(tokens_.begin(), id);
    }
    write_file(folder_ / "tokenizer.json", document.dump());
  }

  std::vector<std::int32_t> tokens(const std::string& text) const {
    return json_of({"tokenize", folder_ / "tokenizer.json", text, "--no-special"})["ids"]
        .get<std::vector<std::int32_t>>();
  }
  std::vector<std::int32_t> prompt() const {
    std::vector<std::int32_t> ids = {0, tokens_[0]};  // BOS
    for (const std::int32_t id : tokens(kBefore)) ids.push_back(id);
    ids.push_back(tokens_[1]);
    for (const std::int32_t id : tokens(kAfter)) ids.push_back(id);
    ids.push_back(tokens_[2]);
    return ids;
  }

  static constexpr const char *kBefore = "Once upon a time, there was a", *kAfter = " who lived in a forest.";
  const TempFolder folder_;
  std::vector<std::int32_t> tokens_;  // of the prefix, the suffix, the middle
};

TEST_F(FillIn, GenerateReadsBothSides) {
  const std::string model = folder_ / "";
  const Arguments options = {"--max-tokens", "12", "--seed", "5", "--temperature", "0.9"};
  Arguments arguments = {"generate", model, kBefore, "--suffix", kAfter},
            plain = {"generate", model, "--ids", joined(prompt())};
  arguments.insert(arguments.end(), options.begin(), options.end());
  plain.insert(plain.end(), options.begin(), options.end());
  const Json middle = json_of(arguments);
  EXPECT_EQ(middle["prompt_ids"], Json(prompt()));
  EXPECT_EQ(middle["ids"], json_of(plain)["ids"]) << "the ids alone give the same text";
  EXPECT_EQ(json_of({"generate", model, "", "--suffix", "", "--max-tokens", "1"})["prompt_ids"],
            Json({0, tokens_[0], tokens_[1], tokens_[2]}));
  expect_error({"generate", "a", "--suffix", "b"}, {"the model has no tokens for filling in the middle"});
  expect_usage_error({"generate", model, "--ids", "1", "--suffix", "b"}, {"--suffix"});
}

TEST_F(FillIn, TheServerWritesTheSameMiddle) {
  const Json middle =
      json_of({"generate", folder_ / "", kBefore, "--suffix", kAfter, "--max-tokens", "12", "--greedy"});
  TestServer server({folder_ / ""});
  Json body = {{"input_prefix", kBefore}, {"input_suffix", kAfter}, {"n_predict", 12}, {"temperature", 0}};
  const HttpResponse response = server.post("/infill", body);
  ASSERT_EQ(response.status, 200) << response.body;
  const Json reply = response.json();
  EXPECT_EQ(reply["content"], middle["text"]);
  EXPECT_EQ(reply["tokens"], middle["ids"]);
  EXPECT_EQ(reply["stop"], true);
  EXPECT_EQ(reply["stop_type"], middle["finish_reason"] == "length" ? "limit" : "eos");
  EXPECT_EQ(reply["tokens_predicted"], middle["ids"].size());
  EXPECT_EQ(reply["tokens_evaluated"], prompt().size());
  body["stream"] = true;
  HttpResponse stream = server.post("/infill", body);
  EXPECT_EQ(stream.body.find("[DONE]"), std::string::npos) << "llama-server's stream ends without it";
  stream.body += "data: [DONE]\n\n";
  std::string text;
  Json last;
  std::size_t n_before = 0;
  for (const Json& event : stream.events()) {
    text += event["content"];
    n_before += event["stop"] == false ? 1 : 0;
    last = event;
  }
  EXPECT_EQ(text, middle["text"]);
  EXPECT_EQ(n_before, middle["ids"].size());
  EXPECT_EQ(last["stop"], true);
  EXPECT_EQ(last["tokens_predicted"], middle["ids"].size());
  const Json completion =
      server.post("/v1/completions", {{"prompt", kBefore}, {"suffix", kAfter}, {"max_tokens", 12}, {"temperature", 0}})
          .json();
  EXPECT_EQ(completion["choices"][0]["text"], middle["text"]);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(FillIn, AModelWithoutTheTokensRefuses) {
  TestServer server({});
  const HttpResponse response = server.post("/infill", {{"input_prefix", "a"}, {"input_suffix", "b"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("the model has no tokens for filling in the middle"), std::string::npos);
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
