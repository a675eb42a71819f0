// Adapters with a head of their own (modules_to_save) by request: what the command gives with --adapter.
#include <gmock/gmock.h>

#include <thread>

#include "cli/head_models.h"
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class ServeHeadAdapter : public testing::Test {
 protected:
  static std::string adapter(const std::string& name) { return goldens() + "/lora_heads/" + name + "/adapter"; }
  /// The model that the adapter is for, with letter_words().
  std::string base(const std::string& name) const {
    const Json config = Json::parse(read_file(adapter(name) + "/adapter_config.json"));
    const std::string golden = config["base_model_name_or_path"];
    return head_model(folder_ / name, std::filesystem::path(golden).filename());
  }
  TempFolder folder_;
};

TEST_F(ServeHeadAdapter, ARequestHasTheHeadThatItNames) {
  const std::string model = base("bert"), own = adapter("bert");
  const std::vector<std::string> texts = {"a b c", "d", "e f g h i j k"};
  const auto logits = [&](const std::string& text, const Arguments& more) {
    Arguments all = {"classify", model, text};
    all.insert(all.end(), more.begin(), more.end());
    return json_of(all)["logits"];
  };
  std::vector<Json> plain, adapted, halved;
  for (const std::string& text : texts) {
    plain.push_back(logits(text, {}));
    adapted.push_back(logits(text, {"--adapter", own}));
    halved.push_back(logits(text, {"--adapter", own + "=0.5"}));
    EXPECT_NE(plain.back(), adapted.back());
    EXPECT_NE(halved.back(), adapted.back());
  }
  TestServer server({model, "--adapter", "mine=" + own});
  const std::string id = server.get("/v1/models").json()["data"][0]["id"];
  const auto answer = [&](Json body) {
    body["use_activation"] = false;
    const Json reply = server.post("/classify", body).json();
    std::vector<Json> all;
    for (const Json& one : reply["data"]) all.push_back(one["probs"]);
    return all;
  };
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 3; ++i) {
        if (client % 2 == 0) {
          EXPECT_EQ(answer({{"input", texts}}), plain);
        } else {
          EXPECT_EQ(answer({{"input", texts}, {"model", id + ":mine"}}), adapted);
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  const Json half = {{"adapters", Json::array({{{"name", "mine"}, {"scale", 0.5}}})}};
  EXPECT_EQ(answer({{"input", texts}, {"vitrine", half}}), halved);
  const Json twice = {{"adapters", Json::array({{{"name", "mine"}}, {{"name", "mine"}}})}};
  const HttpResponse refused = server.post("/classify", {{"input", "a"}, {"vitrine", twice}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.json()["error"]["message"].get<std::string>(), HasSubstr("modules_to_save"));
  const Json predicted = server.post("/predict", {{"inputs", "a b c"}, {"model", id + ":mine"}}).json();
  EXPECT_EQ(predicted[0]["score"], json_of({"classify", model, "a b c", "--adapter", own})["score"]);
  const Json body = {{"input", "a b c"}, {"model", id + ":mine"}, {"vitrine", {{"attribute", {{"class", "LABEL_1"}}}}}};
  EXPECT_EQ(server.post("/classify", body).json()["vitrine"]["attribution"],
            json_of({"attribute", model, "a b c", "--class", "LABEL_1", "--adapter", own}));
  EXPECT_EQ(server.stop().status, 0);
  expect_error({"serve", model, "--port", "0", "--adapter", own, "--adapter", "mine=" + own}, {own, "modules_to_save"});
}

TEST_F(ServeHeadAdapter, RerankersHaveOneToo) {
  const std::string model = base("qwen3"), own = adapter("qwen3");
  const Arguments texts = {"rerank", model, "a b", "c d e", "f"};
  Arguments adapted = texts;
  adapted.insert(adapted.end(), {"--adapter", own});
  TestServer server({model, "--adapter", "mine=" + own});
  const std::string id = server.get("/v1/models").json()["data"][0]["id"];
  Json body = {{"query", "a b"}, {"documents", {"c d e", "f"}}};
  const auto expect = [&](const Json& expected) {
    const Json found = server.post("/v1/rerank", body).json()["results"];
    ASSERT_EQ(found.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(found[i]["index"], expected[i]["index"]);
      EXPECT_EQ(found[i]["relevance_score"], expected[i]["score"]);
    }
  };
  const Json plain = json_of(texts)["results"], own_results = json_of(adapted)["results"];
  EXPECT_NE(plain, own_results);
  expect(plain);
  body["model"] = id + ":mine";
  expect(own_results);
  body["model"] = id;
  expect(plain);
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
