// Rerankers and classifiers over HTTP: what the routes answer is what the commands print, whatever shares a round.
#include <gmock/gmock.h>

#include <thread>

#include "cli/head_models.h"
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

class ServeReading : public testing::Test {
 protected:
  std::string model(const std::string& golden, const Json& more = Json::object()) const {
    return head_model(folder_ / golden, golden, more);
  }
  TempFolder folder_;
};

TEST_F(ServeReading, RerankIsTheCommands) {
  const std::string folder = model("distilbert_classes");
  const Json expected = json_of({"rerank", folder, "q", "a b c", "x", "w x y z"})["results"];
  TestServer server({folder});
  const Json documents = {"a b c", {{"text", "x"}}, "w x y z"};
  const Json jina = server.post("/v1/rerank", {{"query", "q"}, {"documents", documents}}).json();
  const Json cohere =
      server
          .post("/v2/rerank", {{"model", "distilbert_classes"}, {"query", "q"}, {"documents", documents}, {"top_n", 2}})
          .json();
  const Json tei =
      server.post("/rerank", {{"query", "q"}, {"texts", {"a b c", "x", "w x y z"}}, {"return_text", true}}).json();
  const Json score = server.post("/v1/score", {{"text_1", "q"}, {"text_2", {"a b c", "x", "w x y z"}}}).json();
  ASSERT_EQ(jina["results"].size(), 3U) << jina;
  ASSERT_EQ(cohere["results"].size(), 2U) << cohere;
  ASSERT_EQ(tei.size(), 3U) << tei;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t index = expected[i]["index"];
    EXPECT_EQ(jina["results"][i]["index"], index);
    EXPECT_EQ(jina["results"][i]["relevance_score"], expected[i]["score"]);
    EXPECT_TRUE(jina["results"][i]["document"]["text"].is_string());
    EXPECT_EQ(tei[i]["score"], expected[i]["score"]);
    EXPECT_EQ(tei[i]["text"], jina["results"][i]["document"]["text"]);
    EXPECT_EQ(score["data"][index]["score"], expected[i]["score"]);
  }
  EXPECT_FALSE(cohere["results"][0].contains("document"));
  EXPECT_EQ(jina["usage"]["total_tokens"], 3 * 4 + 8) << "each document with the query, and [CLS] and two [SEP]";
  const Json raw = server.post("/rerank", {{"query", "q"}, {"texts", {"x"}}, {"raw_scores", true}}).json();
  EXPECT_EQ(raw[0]["score"], json_of({"rerank", folder, "q", "x", "--raw"})["results"][0]["score"]);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeReading, ClassesAreTheCommands) {
  const std::string folder = model("bert_classes");
  TestServer server({folder});
  const Json one = json_of({"classify", folder, "a b c"}), pair = json_of({"classify", folder, "a", "--pair", "b"});
  const Json vllm = server.post("/v1/classify", {{"input", {"a b c", "q"}}}).json();
  EXPECT_EQ(vllm["data"][0]["label"], one["label"]);
  EXPECT_EQ(vllm["data"][0]["num_classes"], 3);
  EXPECT_EQ(server.post("/classify", {{"input", "a b c"}}).json()["data"][0], vllm["data"][0]);
  const Json alone = server.post("/predict", {{"inputs", "a b c"}}).json();
  EXPECT_EQ(alone, one["scores"]);
  const Json list = server.post("/predict", {{"inputs", Json::parse(R"([["a b c"], ["a", "b"]])")}}).json();
  EXPECT_EQ(list[0], one["scores"]);
  EXPECT_EQ(list[1], pair["scores"]);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeReading, ClientsShareRoundsWithoutChangingABit) {
  const std::string folder = model("modernbert_mean");
  TestServer server({folder});
  const Json expected = json_of({"classify", folder, "a b c d e"})["scores"];
  std::vector<std::thread> clients;
  for (int client = 0; client < 16; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 4; ++i) {
        const std::string other(static_cast<std::size_t>(1 + (client * 7 + i * 3) % 30), 'z');
        const Json all = server.post("/predict", {{"inputs", {other, "a b c d e", "q q"}}}).json();
        EXPECT_EQ(all[1], expected);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeReading, WrongRequestsAreErrorsOfTheClient) {
  TestServer server({model("distilbert_classes")});
  const auto refusal = [&](const std::string& path, const Json& body) {
    const HttpResponse response = server.post(path, body);
    EXPECT_EQ(response.status, 400) << path << body;
    return response.json()["error"]["message"].get<std::string>();
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal("/v1/rerank", {{"documents", {"a"}}}), HasSubstr("query"));
  EXPECT_THAT(refusal("/v1/rerank", {{"query", "q"}, {"documents", "a"}}), HasSubstr("documents"));
  EXPECT_THAT(refusal("/v1/rerank", {{"query", "q"}, {"documents", Json::array()}}), HasSubstr("documents"));
  EXPECT_THAT(refusal("/v1/rerank", {{"query", "q"}, {"documents", {7}}}), HasSubstr("documents[0]"));
  EXPECT_THAT(refusal("/v1/rerank", {{"query", "q"}, {"documents", {"a"}}, {"top_m", 1}}),
              HasSubstr("did you mean top_n"));
  EXPECT_THAT(refusal("/rerank", {{"query", "q"},
                                  {"texts",
                                   {std::string(90, 'a') + " " +
                                    [] {
                                      std::string many;
                                      for (int i = 0; i < 60; ++i) many += "a ";
                                      return many;
                                    }()}},
                                  {"truncate", false}}),
              HasSubstr("48"));
  EXPECT_THAT(refusal("/predict", {{"inputs", 7}}), HasSubstr("inputs"));
  EXPECT_THAT(refusal("/v1/completions", {{"prompt", "a"}}), HasSubstr("model"));
  TestServer generator({});
  EXPECT_EQ(generator.post("/v1/rerank", {{"query", "q"}, {"documents", {"a"}}}).status, 400);
  EXPECT_EQ(generator.post("/classify", {{"input", "q"}}).status, 400);
  EXPECT_EQ(generator.stop().status, 0);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeReading, AnEncoderRanksBySimilarity) {
  const std::string folder = folder_ / "bert";
  std::filesystem::copy(goldens() + "/masked/bert", folder);
  write_file(folder + "/tokenizer.json", letter_words());
  write_file(folder + "/config_sentence_transformers.json", R"({"prompts": {"query": "x y ", "document": "z "}})");
  const Json expected = json_of({"rerank", folder, "a b", "c d", "e"})["results"];
  TestServer server({folder});
  const Json found = server.post("/v2/rerank", {{"query", "a b"}, {"documents", {"c d", "e"}}}).json()["results"];
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found[i]["index"], expected[i]["index"]);
    EXPECT_EQ(found[i]["relevance_score"], expected[i]["score"]);
  }
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
