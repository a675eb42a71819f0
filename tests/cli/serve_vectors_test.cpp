// Vectors over HTTP with the interfaces of text-embeddings-inference, vLLM, OpenAI and Cohere: what the routes answer
// is what the commands print.
#include <gmock/gmock.h>

#include <thread>

#include "cli/head_models.h"
#include "cli/http_client.h"
#include "tokenizer/read/base64.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class ServeVectors : public testing::Test {
 protected:
  ServeVectors() : folder_path_(folder_ / "bert") {
    std::filesystem::copy(goldens() + "/masked/bert", folder_path_);
    write_file(folder_path_ + "/tokenizer.json", letter_words());
    write_file(folder_path_ + "/config_sentence_transformers.json",
               R"({"prompts": {"query": "x y ", "document": "z ", "task": "t "}})");
  }
  Json vector_of(const std::string& text) const { return json_of({"encode", folder_path_, text})["embedding"]; }

  TempFolder folder_;
  std::string folder_path_;
};

TEST_F(ServeVectors, AreThoseOfEncode) {
  TestServer server({folder_path_});
  const Json expected = {vector_of("a b c"), vector_of("d")}, inputs = {"a b c", "d"};
  EXPECT_EQ(server.post("/embed", {{"inputs", inputs}}).json(), expected);
  EXPECT_EQ(server.post("/embed", {{"inputs", "d"}}).json(), Json::array({expected[1]}));
  EXPECT_EQ(server.post("/", {{"inputs", inputs}}).json(), expected) << "what the model is for";
  EXPECT_EQ(server.post("/v1/embeddings", {{"input", inputs}}).json()["data"][1]["embedding"], expected[1]);
  const Json pooled = server.post("/pooling", {{"input", inputs}, {"task", "embed"}}).json();
  EXPECT_EQ(pooled["data"][0]["data"], expected[0]);
  EXPECT_EQ(pooled["usage"]["total_tokens"], 5 + 3);
  const Json first = server.post("/v1/embed", {{"texts", inputs}}).json();
  EXPECT_EQ(first["embeddings"], expected);
  EXPECT_EQ(first["response_type"], "embeddings_floats");
  const Json second =
      server.post("/v2/embed", {{"texts", inputs}, {"embedding_types", {"float", "base64"}}, {"model", "bert"}}).json();
  EXPECT_EQ(second["embeddings"]["float"], expected);
  EXPECT_EQ(second["texts"], inputs);
  const std::vector<float> floats = expected[0];
  EXPECT_EQ(second["embeddings"]["base64"][0],
            encode_base64({reinterpret_cast<const unsigned char*>(floats.data()), 4 * floats.size()}));
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeVectors, ClientsOfAllRoutesShareRoundsWithoutChangingABit) {
  std::vector<std::string> texts;
  for (int i = 0; i < 12; ++i) {
    std::string& text = texts.emplace_back(1, static_cast<char>('a' + i));
    for (int word = 0; word < i * i % 23; ++word) text += std::string(" ") + static_cast<char>('a' + word % 20);
  }
  std::vector<Json> vectors;
  for (const std::string& text : texts) vectors.push_back(vector_of(text));
  const Json ranking = json_of({"rerank", folder_path_, texts[3], texts[1], texts[11], texts[7]})["results"];
  TestServer server({folder_path_});
  const auto ask = [&](std::size_t client, std::size_t i) {
    const std::size_t a = (client * 5 + i * 7) % texts.size(), b = (a + 1 + client % 11) % texts.size();
    const Json pair = {texts[a], texts[b]}, expected = {vectors[a], vectors[b]};
    switch ((client + i) % 4) {
      case 0:
        EXPECT_EQ(server.post("/embed", {{"inputs", pair}}).json(), expected);
        break;
      case 1:
        EXPECT_EQ(server.post("/v1/embeddings", {{"input", texts[a]}}).json()["data"][0]["embedding"], vectors[a]);
        break;
      case 2:
        EXPECT_EQ(server.post("/v2/embed", {{"texts", pair}}).json()["embeddings"]["float"], expected);
        break;
      default:
        const Json found =
            server.post("/v2/rerank", {{"query", texts[3]}, {"documents", {texts[1], texts[11], texts[7]}}}).json();
        for (std::size_t r = 0; r < 3; ++r) {
          EXPECT_EQ(found["results"][r]["index"], ranking[r]["index"]);
          EXPECT_EQ(found["results"][r]["relevance_score"], ranking[r]["score"]);
        }
    }
  };
  std::vector<std::thread> clients;
  for (std::size_t client = 0; client < 16; ++client) {
    clients.emplace_back([&, client] {
      for (std::size_t i = 0; i < 8; ++i) ask(client, i);
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeVectors, PromptsAreTheFolders) {
  TestServer server({folder_path_});
  const Json query = vector_of("x y a b"), document = vector_of("z a b"), task = vector_of("t a b");
  const auto embedded = [&](const char* field, const char* value) {
    return server.post("/v1/embeddings", {{"input", "a b"}, {field, value}}).json()["data"][0]["embedding"];
  };
  EXPECT_EQ(embedded("input_type", "query"), query);
  EXPECT_EQ(embedded("input_type", "search_document"), document);
  EXPECT_EQ(embedded("prompt_name", "task"), task);
  EXPECT_EQ(server.post("/embed", {{"inputs", "a b"}, {"prompt_name", "query"}}).json()[0], query);
  EXPECT_EQ(
      server.post("/v2/embed", {{"texts", {"a b"}}, {"input_type", "search_query"}}).json()["embeddings"]["float"][0],
      query);
  const HttpResponse unknown = server.post("/embed", {{"inputs", "a"}, {"prompt_name", "quarry"}});
  EXPECT_EQ(unknown.status, 422);
  EXPECT_THAT(unknown.json()["error"].get<std::string>(), HasSubstr("document, query, task"));
  EXPECT_EQ(unknown.json()["error_type"], "Validation");
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeVectors, FieldsChangeTheirForm) {
  TestServer server({folder_path_});
  const Json whole = vector_of("a b c");
  const auto length = [](const Json& vector) {
    double squares = 0;
    for (const Json& x : vector) squares += x.get<double>() * x.get<double>();
    return std::sqrt(squares);
  };
  const Json cut = server.post("/embed", {{"inputs", "a b c"}, {"dimensions", 4}}).json()[0];
  ASSERT_EQ(cut.size(), 4U);
  EXPECT_NEAR(length(cut), 1, 1e-6);
  EXPECT_NEAR(cut[0].get<double>() * whole[1].get<double>(), cut[1].get<double>() * whole[0].get<double>(), 1e-6);
  EXPECT_EQ(server.post("/v1/embeddings", {{"input", "a b c"}, {"dimensions", 4}}).json()["data"][0]["embedding"], cut);
  EXPECT_GT(std::abs(length(server.post("/embed", {{"inputs", "a b c"}, {"normalize", false}}).json()[0]) - 1), 1e-3);
  const Json rows = server.post("/embed_all", {{"inputs", "a b c"}}).json()[0];
  ASSERT_EQ(rows.size(), 5U);
  double mean = 0;
  for (const Json& row : rows) mean += row[0].get<double>() / 5;
  EXPECT_NEAR(mean, server.post("/embed", {{"inputs", "a b c"}, {"normalize", false}}).json()[0][0].get<double>(),
              1e-6);
  EXPECT_EQ(server.post("/pooling", {{"input", "a b c"}, {"task", "token_embed"}, {"use_activation", false}})
                .json()["data"][0]["data"],
            rows);
  const Json of_tokens = server.post("/pooling", {{"input", "a b c"}}).json()["data"][0]["data"];
  EXPECT_NEAR(length(of_tokens[3]), 1, 1e-6) << "vectors of tokens, of length 1";
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeVectors, LongTextsAreCutOnTheSideThatARequestNames) {
  write_file(folder_path_ + "/sentence_bert_config.json", R"({"max_seq_length": 5})");
  TestServer server({folder_path_});
  const auto embedded = [&](Json body) {
    body["inputs"] = "a b c d e";
    return server.post("/embed", body);
  };
  EXPECT_EQ(embedded({}).json()[0], vector_of("a b c"));
  EXPECT_EQ(embedded({{"truncation_direction", "Left"}}).json()[0], vector_of("c d e"));
  const HttpResponse refused = embedded({{"truncate", false}});
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.json()["error"].get<std::string>(), HasSubstr("7 tokens, the model reads at most 5"));
  EXPECT_EQ(
      server.post("/v2/embed", {{"texts", {"a b c d e"}}, {"truncate", "START"}}).json()["embeddings"]["float"][0],
      vector_of("c d e"));
  EXPECT_EQ(server.post("/v2/embed", {{"texts", {"a b c d e"}}, {"truncate", "NONE"}}).status, 400);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeVectors, SimilarityIsThatOfVectors) {
  TestServer server({folder_path_});
  const Json inputs = {{"source_sentence", "a b"}, {"sentences", {"c d", "a b"}}};
  const Json found = server.post("/similarity", {{"inputs", inputs}}).json();
  ASSERT_EQ(found.size(), 2U) << found;
  EXPECT_NEAR(found[1].get<double>(), 1, 1e-6);
  const Json a = vector_of("a b"), c = vector_of("c d");
  double product = 0;
  for (std::size_t i = 0; i < a.size(); ++i) product += a[i].get<double>() * c[i].get<double>();
  EXPECT_NEAR(found[0].get<double>(), product, 1e-6);
  EXPECT_EQ(server.post("/", {{"inputs", inputs}, {"parameters", Json::object()}}).json(), found);
  const Json prompted =
      server.post("/similarity", {{"inputs", inputs}, {"parameters", {{"prompt_name", "task"}}}}).json();
  EXPECT_NE(prompted[0], found[0]);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeVectors, InfoAndTokens) {
  TestServer server({folder_path_});
  const Json info = server.get("/info").json();
  EXPECT_EQ(info["model_id"], "bert");
  EXPECT_EQ(info["model_type"], Json::parse(R"({"embedding": {"pooling": "mean"}})"));
  EXPECT_GT(info["max_input_length"], 0);
  const Json tokens = server.post("/tokenize", {{"inputs", {"a b"}}}).json();
  ASSERT_EQ(tokens[0].size(), 4U) << tokens;
  EXPECT_EQ(tokens[0][1]["id"], 5);
  EXPECT_EQ(tokens[0][1]["text"], "a");
  EXPECT_EQ(tokens[0][0]["special"], true);
  EXPECT_EQ(server.post("/tokenize", {{"inputs", "a b"}, {"add_special_tokens", false}}).json()[0].size(), 2U);
  EXPECT_EQ(server.post("/decode", {{"ids", {5, 6}}}).json().size(), 1U);
  EXPECT_EQ(server.post("/decode", {{"ids", {{5}, {6}}}}).json().size(), 2U);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeVectors, SitesAreThoseOfTheText) {
  TestServer server({folder_path_});
  const Json with = server
                        .post("/v1/embeddings", Json::parse(R"({"input": ["a b", "c"],
      "vitrine": {"sites": ["blocks.0.hook_resid_post"]}})"))
                        .json();
  ASSERT_EQ(with["vitrine"]["texts"].size(), 2U) << with;
  EXPECT_EQ(with["vitrine"]["texts"][0]["sites"][0]["name"], "blocks.0.hook_resid_post");
  EXPECT_EQ(with["vitrine"]["texts"][0]["sites"][0]["shape"][0], 4);
  EXPECT_EQ(with["vitrine"]["texts"][1]["sites"][0]["shape"][0], 3);
  EXPECT_EQ(with["data"][0]["embedding"], vector_of("a b")) << "the same bits";
  const Json listed = server
                          .post("/embed", Json::parse(R"({"inputs": "a b",
      "vitrine": {"sites": ["blocks.0.hook_resid_post"], "set": ["blocks.0.hook_resid_post*=0"]}})"))
                          .json();
  EXPECT_NE(listed["data"][0], vector_of("a b"));
  const HttpResponse wrong =
      server.post("/embed", Json::parse(R"({"inputs": "a", "vitrine": {"sites": ["blokcs.*"]}})"));
  EXPECT_EQ(wrong.status, 422);
  EXPECT_THAT(wrong.json()["error"].get<std::string>(), HasSubstr("vitrine.sites"));
  EXPECT_EQ(server.post("/embed", Json::parse(R"({"inputs": "a", "vitrine": {"attribute": {}}})")).status, 400);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeVectors, AnAbilityThatTheModelLacksIsNamed) {
  TestServer server({folder_path_});
  const auto refusal = [&](const std::string& path, const Json& body, const char* member) {
    const HttpResponse response = server.post(path, body);
    EXPECT_EQ(response.status, 400) << path << response.body;
    const Json error = response.json()[member];
    return error.is_object() ? error["message"].get<std::string>() : error.get<std::string>();
  };
  EXPECT_THAT(refusal("/predict", {{"inputs", "a"}}, "error"), HasSubstr("no classifier"));
  EXPECT_THAT(refusal("/classify", {{"input", "a"}}, "error"), HasSubstr("no classifier"));
  EXPECT_THAT(refusal("/embed_sparse", {{"inputs", "a"}}, "error"), HasSubstr("SpladePooling"));
  EXPECT_THAT(refusal("/pooling", {{"input", "a"}, {"task", "token_classify"}}, "error"),
              HasSubstr("token classifier"));
  TestServer classifier({head_model(folder_ / "classes", "bert_classes")});
  for (const char* const path : {"/embed", "/embed_all", "/similarity"}) {
    const Json body = {{"inputs", path == std::string("/similarity")
                                      ? Json{{"source_sentence", "a"}, {"sentences", {"b"}}}
                                      : Json("a")}};
    const HttpResponse response = classifier.post(path, body);
    EXPECT_EQ(response.status, 400) << path << response.body;
    EXPECT_THAT(response.json()["error"].get<std::string>(), HasSubstr("makes no vectors"));
  }
  for (const char* const path : {"/v1/rerank", "/v2/rerank"}) {
    const HttpResponse response = classifier.post(path, {{"query", "a"}, {"documents", {"b"}}});
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_THAT(response.json()[path[2] == '1' ? "detail" : "message"].get<std::string>(), HasSubstr("3 labels"));
  }
  EXPECT_EQ(classifier.stop().status, 0);
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
