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
        const Json inputs = {Json::array({other}), Json::array({"a b c d e"}), Json::array({"q q"})};
        const Json all = server.post("/predict", {{"inputs", inputs}}).json();
        EXPECT_EQ(all[1], expected);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(server.stop().status, 0);
}

/// Each interface has its own errors: the status, and the member that has the message.
TEST_F(ServeReading, WrongRequestsAreErrorsOfTheClient) {
  TestServer server({model("distilbert_classes")});
  const auto refusal = [&](const std::string& path, const Json& body, int status, const char* member) {
    const HttpResponse response = server.post(path, body);
    EXPECT_EQ(response.status, status) << path << body;
    const Json message = response.json()[member];
    return message.is_object()   ? message["message"].get<std::string>()
           : message.is_string() ? message.get<std::string>()
                                 : response.body;
  };
  using testing::HasSubstr;
  const auto jina = [&](const Json& body) { return refusal("/v1/rerank", body, 422, "detail"); };
  const auto cohere = [&](const Json& body) { return refusal("/v2/rerank", body, 400, "message"); };
  const auto tei = [&](const char* path, const Json& body, int status) { return refusal(path, body, status, "error"); };
  for (const auto& refused : {std::function<std::string(const Json&)>(jina), {cohere}}) {
    EXPECT_THAT(refused({{"documents", {"a"}}}), HasSubstr("query"));
    EXPECT_THAT(refused({{"query", "q"}, {"documents", "a"}}), HasSubstr("documents"));
    EXPECT_THAT(refused({{"query", "q"}, {"documents", Json::array()}}), HasSubstr("documents"));
    EXPECT_THAT(refused({{"query", "q"}, {"documents", {7}}}), HasSubstr("documents[0]"));
    EXPECT_THAT(refused({{"query", "q"}, {"documents", {"a"}}, {"top_m", 1}}), HasSubstr("did you mean top_n"));
    EXPECT_THAT(refused({{"query", "q"}, {"documents", {"a"}}, {"max_tokens_per_doc", 2}}), HasSubstr("max_tokens"));
  }
  std::string many;
  for (int i = 0; i < 60; ++i) many += "a ";
  const Json cut = {{"query", "q"}, {"texts", {many}}, {"truncate", false}};
  EXPECT_THAT(tei("/rerank", cut, 413), HasSubstr("48"));
  EXPECT_THAT(tei("/rerank", {{"query", "q"}, {"texts", Json::array()}}, 400), HasSubstr("texts"));
  EXPECT_THAT(tei("/predict", {{"inputs", 7}}, 422), HasSubstr("inputs"));
  EXPECT_THAT(tei("/predict", {{"inputs", {"a", "b", "c"}}}, 422), HasSubstr("pair"));
  EXPECT_THAT(tei("/embed", {{"inputs", Json::array()}}, 400), HasSubstr("no vectors"));
  EXPECT_THAT(tei("/v1/completions", {{"prompt", "a"}}, 400), HasSubstr("model"));
  EXPECT_EQ(server.exchange(TestServer::post_text("/v1/rerank", "{")).status, 422);
  EXPECT_EQ(server.exchange(TestServer::post_text("/v2/rerank", "{")).status, 400);
  EXPECT_EQ(server.exchange(TestServer::post_text("/rerank", "{")).status, 400);
  EXPECT_EQ(server.post("/rerank", {{"model", "x"}, {"query", "q"}, {"texts", {"a"}}}).status, 404);
  TestServer generator({});
  EXPECT_EQ(generator.post("/v1/rerank", {{"query", "q"}, {"documents", {"a"}}}).status, 400);
  EXPECT_EQ(generator.post("/classify", {{"input", "q"}}).status, 400);
  EXPECT_EQ(generator.stop().status, 0);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeReading, DecodersWithModulesRankByVectors) {
  const std::string folder = folder_ / "qwen";
  std::filesystem::copy(golden("qwen3"), folder);
  write_file(folder + "/tokenizer.json", letter_words());
  const Arguments rerank = {"rerank", folder, "a b", "c d", "e"};
  EXPECT_THAT(run_program(rerank).err, testing::HasSubstr("continues texts"));
  write_file(folder + "/modules.json",
             R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  std::filesystem::create_directory(folder + "/1_Pooling");
  write_file(folder + "/1_Pooling/config.json", R"({"word_embedding_dimension": 16, "pooling_mode_lasttoken": true})");
  const Json expected = json_of(rerank)["results"];
  TestServer server({folder});
  const Json found = server.post("/v1/rerank", {{"query", "a b"}, {"documents", {"c d", "e"}}}).json()["results"];
  ASSERT_EQ(found.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found[i]["index"], expected[i]["index"]);
    EXPECT_EQ(found[i]["relevance_score"], expected[i]["score"]);
  }
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeReading, PairsLoseTheirFirstTokensOnTheLeft) {
  const std::string folder = model("distilbert_classes");
  write_file(folder + "/tokenizer_config.json", R"({"model_max_length": 8})");
  TestServer server({folder});
  const auto score = [&](const char* query, const char* text, const char* side) {
    const Json body = {{"query", query}, {"texts", {text}}, {"truncation_direction", side}};
    return server.post("/rerank", body).json()[0]["score"].get<double>();
  };
  EXPECT_EQ(score("a b c d", "e", "Right"), score("a b c d", "e", "Left")) << "nothing is cut";
  EXPECT_EQ(score("a b c d e f", "q", "Right"), score("a b c d", "q", "Right"));
  EXPECT_EQ(score("a b c d e f", "q", "Left"), score("c d e f", "q", "Right"));
  EXPECT_EQ(score("q", "a b c d e f", "Left"), score("q", "c d e f", "Right"));
  EXPECT_EQ(score("a b c d e", "u v w x y", "Left"), score("d e", "w x y", "Right"));
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeReading, ScoresOfPairsAndTheFormOfHuggingFace) {
  TestServer server({model("distilbert_classes")});
  const Json many = server.post("/score", {{"queries", {"a", "b"}}, {"documents", {"c", "d"}}}).json()["data"];
  const auto one = [&](const char* a, const char* b) {
    return server.post("/v1/score", {{"text_1", a}, {"text_2", b}}).json()["data"][0]["score"];
  };
  EXPECT_EQ(many[0]["score"], one("a", "c"));
  EXPECT_EQ(many[1]["score"], one("b", "d"));
  EXPECT_EQ(server.post("/score", {{"text_1", {"a", "b"}}, {"text_2", {"c"}}}).status, 400);
  EXPECT_EQ(server.stop().status, 0);
  TestServer classes({model("bert_classes")});
  const Json flat = classes.post("/predict", {{"inputs", "a b"}}).json();
  for (const char* const path : {"/", "/predict"}) {
    const Json nested = classes.post(path, {{"inputs", "a b"}, {"parameters", {{"top_k", 2}}}}).json();
    ASSERT_EQ(nested.size(), 1U);
    ASSERT_EQ(nested[0].size(), 2U);
    EXPECT_EQ(nested[0][1], flat[1]);
  }
  const Json raw = classes.post("/", {{"inputs", "a b"}, {"parameters", {{"function_to_apply", "none"}}}}).json();
  EXPECT_EQ(raw[0], classes.post("/predict", {{"inputs", "a b"}, {"raw_scores", true}}).json());
  EXPECT_EQ(classes.post("/pooling", {{"input", "a b"}}).json()["data"][0]["data"],
            classes.post("/classify", {{"input", "a b"}}).json()["data"][0]["probs"]);
  EXPECT_EQ(classes.stop().status, 0);
}

TEST_F(ServeReading, TextsAreCounted) {
  TestServer server({model("distilbert_classes")});
  server.post("/v1/rerank", {{"query", "q"}, {"documents", {"a b c", "x"}}});
  const std::string metrics = server.get("/metrics").body;
  EXPECT_THAT(metrics, testing::HasSubstr("vitrine_texts_total{model=\"distilbert_classes\"} 2\n"));
  EXPECT_THAT(metrics, testing::HasSubstr("vitrine_prompt_tokens_total{model=\"distilbert_classes\"} 12\n"));
  EXPECT_THAT(server.stop().err, testing::HasSubstr("\"prompt_tokens\":12"));
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
