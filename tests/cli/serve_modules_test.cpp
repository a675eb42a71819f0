// Folders of sentence-transformers over HTTP: weights of words, vectors of tokens, scores from the next word, vectors
// of decoders. What the routes answer is what the commands print.
#include <gmock/gmock.h>

#include <thread>

#include "cli/head_models.h"
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class ServeModules : public testing::Test {
 protected:
  /// A golden with modules after its Transformer: names of their classes, and their configs.
  std::string folder(const std::string& golden, const std::vector<std::pair<std::string, Json>>& modules,
                     const Json& config, const std::string& transformer = "Transformer") const {
    const std::string path = folder_ / std::filesystem::path(golden).filename();
    std::filesystem::copy(goldens() + "/" + golden, path);
    write_file(path + "/tokenizer.json", letter_words());
    Json rows = {{{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", "sentence_transformers.models." + transformer}}};
    for (const auto& [type, own] : modules) {
      const std::string name = std::to_string(rows.size()), place = name + "_" + type;
      rows.push_back(
          {{"idx", rows.size()}, {"name", name}, {"path", place}, {"type", "sentence_transformers.models." + type}});
      std::filesystem::create_directory(path + "/" + place);
      write_file(path + "/" + place + "/config.json", own.dump());
    }
    write_file(path + "/modules.json", rows.dump());
    write_file(path + "/config_sentence_transformers.json", config.dump());
    return path;
  }
  /// The ranking of three documents, by the command and by a route.
  static void expect_ranking(TestServer& server, const std::string& model) {
    const Json documents = {"c d", "e", "a b c d e f"};
    const Json expected = json_of({"rerank", model, "a b", "c d", "e", "a b c d e f"})["results"];
    const Json found = server.post("/v2/rerank", {{"query", "a b"}, {"documents", documents}}).json()["results"];
    ASSERT_EQ(found.size(), 3U) << found;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(found[i]["index"], expected[i]["index"]);
      EXPECT_EQ(found[i]["relevance_score"], expected[i]["score"]);
    }
  }

  TempFolder folder_;
};

TEST_F(ServeModules, WeightsOfWords) {
  const std::string model = folder("masked/bert", {{"SpladePooling", {{"pooling_strategy", "max"}}}},
                                   {{"model_type", "SparseEncoder"}, {"prompts", {{"query", "x "}}}}, "MLMTransformer");
  const Json expected = json_of({"encode", model, "a b c", "--sparse"});
  TestServer server({model});
  const Json found = server.post("/embed_sparse", {{"inputs", {"a b c", "d"}}}).json();
  ASSERT_EQ(found.size(), 2U) << found;
  ASSERT_EQ(found[0].size(), expected["indices"].size());
  EXPECT_GT(found[0].size(), 0U);
  for (std::size_t i = 0; i < found[0].size(); ++i) {
    EXPECT_EQ(found[0][i]["index"], expected["indices"][i]);
    EXPECT_EQ(found[0][i]["value"], expected["values"][i]);
  }
  EXPECT_EQ(server.post("/embed_sparse", {{"inputs", "a b c"}, {"prompt_name", "query"}}).json()[0],
            server.post("/embed_sparse", {{"inputs", "x a b c"}}).json()[0]);
  EXPECT_EQ(server.post("/embed", {{"inputs", "a b c"}}).json()[0], json_of({"encode", model, "a b c"})["embedding"]);
  const HttpResponse cut = server.post("/embed", {{"inputs", "a"}, {"dimensions", 4}});
  EXPECT_EQ(cut.status, 422) << cut.body;
  EXPECT_EQ(server.get("/info").json()["model_type"]["embedding"]["pooling"], "splade");
  expect_ranking(server, model);
  const Json sites = server
                         .post("/embed_sparse",
                               Json::parse(R"({"inputs": "a b", "vitrine": {"sites": ["blocks.0.hook_resid_post"]}})"))
                         .json();
  EXPECT_EQ(sites["data"][0], server.post("/embed_sparse", {{"inputs", "a b"}}).json()[0]) << "the same bits";
  EXPECT_EQ(sites["vitrine"]["texts"][0]["sites"][0]["shape"][0], 4);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeModules, VectorsOfTokens) {
  const Json tokens = {{"module_input_name", "token_embeddings"}};
  const std::string model =
      folder("masked/bert", {{"MultiVectorMask", {{"skiplist_words", {"c"}}}}, {"Normalize", tokens}},
             {{"model_type", "MultiVectorEncoder"}, {"prompts", {{"query", "x "}}}});
  const Json expected = json_of({"encode", model, "a b", "--multi-vector"})["embedding"];
  TestServer server({model});
  EXPECT_EQ(server.post("/embed_all", {{"inputs", "a b"}}).json()[0], expected);
  EXPECT_EQ(server.post("/pooling", {{"input", "a b"}, {"use_activation", false}}).json()["data"][0]["data"], expected);
  for (const char* const path : {"/embed", "/embed_sparse"}) {
    const HttpResponse refused = server.post(path, {{"inputs", "a b"}});
    EXPECT_EQ(refused.status, 400);
    EXPECT_THAT(refused.json()["error"].get<std::string>(), HasSubstr("a vector of each token"));
  }
  EXPECT_EQ(server.post("/v1/embeddings", {{"input", "a b"}}).status, 400);
  EXPECT_EQ(server.post("/v2/embed", {{"texts", {"a b"}}}).status, 400);
  const Json similar =
      server.post("/similarity", {{"inputs", {{"source_sentence", "a b"}, {"sentences", {"c", "d e"}}}}}).json();
  const Json matrix = json_of({"similarity", model, "a b", "c", "d e"})["similarities"][0];
  EXPECT_EQ(similar[0].get<float>(), matrix[1].get<float>());
  EXPECT_EQ(similar[1].get<float>(), matrix[2].get<float>());
  expect_ranking(server, model);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeModules, ScoresOfTheNextWord) {
  const std::string model = folder("qwen3", {{"LogitScore", {{"true_token_id", 7}, {"false_token_id", 9}}}},
                                   {{"model_type", "CrossEncoder"}});
  write_file(model + "/sentence_bert_config.json", R"({"transformer_task": "text-generation"})");
  TestServer server({model});
  expect_ranking(server, model);
  const HttpResponse refused = server.post("/embed", {{"inputs", "a"}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.json()["error"].get<std::string>(), HasSubstr("scores pairs"));
  EXPECT_TRUE(server.get("/info").json()["model_type"].contains("reranker"));
  EXPECT_EQ(server.stop().status, 0);
}

/// A decoder reads its texts in rounds of sequences, an encoder in rounds of texts; neither changes a bit.
TEST_F(ServeModules, ClientsOfADecoderShareRoundsWithoutChangingABit) {
  const std::string model =
      folder("qwen3",
             {{"Pooling", {{"embedding_dimension", 16}, {"pooling_mode", "lasttoken"}}}, {"Normalize", Json::object()}},
             {{"prompts", {{"query", "x "}}}});
  std::vector<std::string> texts;
  std::vector<Json> vectors, cut;
  for (int i = 0; i < 8; ++i) {
    std::string& text = texts.emplace_back(1, static_cast<char>('a' + i));
    for (int word = 0; word < i * i % 13; ++word) text += std::string(" ") + static_cast<char>('a' + word % 20);
    vectors.push_back(json_of({"encode", model, text})["embedding"]);
    cut.push_back(json_of({"encode", model, text, "--dimensions", "5"})["embedding"]);
  }
  TestServer server({model});
  std::vector<std::thread> clients;
  for (std::size_t client = 0; client < 16; ++client) {
    clients.emplace_back([&, client] {
      for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t a = (client * 5 + i * 3) % texts.size(), b = (a + 1 + client) % texts.size();
        const Json pair = {texts[a], texts[b]};
        EXPECT_EQ(server.post("/embed", {{"inputs", pair}}).json(), Json({vectors[a], vectors[b]}));
        EXPECT_EQ(server.post("/embed", {{"inputs", pair}, {"dimensions", 5}}).json(), Json({cut[a], cut[b]}));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
