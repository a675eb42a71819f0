// Why a text has a label or a document its score, over HTTP: what the command attribute prints.
#include <gmock/gmock.h>

#include "cli/head_models.h"
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class ServeAttribute : public testing::Test {
 protected:
  std::string model(const std::string& golden) const { return head_model(folder_ / golden, golden); }
  TempFolder folder_;
};

Json attribution_of(const HttpResponse& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  return response.json()["vitrine"]["attribution"];
}

TEST_F(ServeAttribute, LabelsAreExplainedAsByTheCommand) {
  const std::string folder = model("bert_classes");
  TestServer server({folder});
  const auto found = [&](const char* path, const char* field, const Json& wishes) {
    return attribution_of(
        server.post(path, {{field, Json::array({"q", "a b c"})}, {"vitrine", {{"attribute", wishes}}}}));
  };
  const Json direct = json_of({"attribute", folder, "a b c", "--class", "LABEL_1"});
  EXPECT_EQ(found("/classify", "input", {{"class", "LABEL_1"}, {"document", 1}}), direct);
  EXPECT_EQ(found("/v1/classify", "input", {{"class", "LABEL_2"}, {"against", "LABEL_0"}, {"by", "component"}}),
            json_of({"attribute", folder, "q", "--class", "LABEL_2", "--against", "LABEL_0", "--by", "component"}));
  const Json path = found("/classify", "input", {{"class", "LABEL_1"}, {"document", 1}, {"method", "ig"}});
  EXPECT_EQ(path, json_of({"attribute", folder, "a b c", "--class", "LABEL_1", "--method", "ig"}));
  EXPECT_EQ(path["words"][2]["word"], "b");
  const Json body = {{"inputs", "a b c"}, {"vitrine", {{"attribute", {{"class", "LABEL_1"}}}, {"sites", {"head.*"}}}}};
  const Json answer = server.post("/predict", body).json();
  EXPECT_EQ(answer["vitrine"]["attribution"], direct);
  EXPECT_FALSE(answer["vitrine"]["texts"].empty());
  EXPECT_EQ(answer["data"], server.post("/predict", {{"inputs", "a b c"}}).json()) << "the same bits";
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeAttribute, DocumentsAreExplainedAsByTheCommand) {
  const std::string folder = model("distilbert_classes");
  const Json documents = {"a  b c", "x y"};
  TestServer server({folder});
  for (const char* const path : {"/v1/rerank", "/v2/rerank", "/rerank"}) {
    const auto found = [&](const Json& wishes) {
      const char* const name = std::string_view(path) == "/rerank" ? "texts" : "documents";
      return attribution_of(
          server.post(path, {{"query", "q r"}, {name, documents}, {"vitrine", {{"attribute", wishes}}}}));
    };
    EXPECT_EQ(found({{"document", 1}}), json_of({"attribute", folder, "q r", "a  b c", "x y", "--document", "1"}));
    EXPECT_EQ(found({{"method", "ig"}, {"steps", 8}, {"baseline", "mask"}}),
              json_of({"attribute", folder, "q r", "a  b c", "x y", "--document", "0", "--method", "ig", "--steps", "8",
                       "--baseline", "mask"}));
    EXPECT_EQ(found({{"method", "ig"}, {"baseline", 7}})["baseline"], 7);
  }
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeAttribute, RerankersInAChatTemplate) {
  for (const std::string& model : {goldens() + "/sentences/judge", chat_reranker(folder_ / "reward")}) {
    const Arguments texts = {model, "what do", "fish  a", "the sea c d e"};
    const auto of = [&](const char* command, Arguments more) {
      more.insert(more.begin(), texts.begin(), texts.end());
      more.insert(more.begin(), command);
      return json_of(more);
    };
    TestServer server({model});
    Json body = {{"query", texts[1]}, {"documents", {texts[2], texts[3]}}};
    const Json results = server.post("/v1/rerank", body).json()["results"], expected = of("rerank", {})["results"];
    ASSERT_EQ(results.size(), 2U) << results;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(results[i]["index"], expected[i]["index"]);
      EXPECT_EQ(results[i]["relevance_score"], expected[i]["score"]);
    }
    body["vitrine"] = {{"attribute", {{"document", 1}}}};
    EXPECT_EQ(attribution_of(server.post("/v1/rerank", body)), of("attribute", {"--document", "1"}));
    body["vitrine"]["attribute"]["method"] = "ig";
    EXPECT_EQ(attribution_of(server.post("/v1/rerank", body)), of("attribute", {"--document", "1", "--method", "ig"}));
    EXPECT_EQ(server.stop().status, 0);
  }
}

TEST_F(ServeAttribute, ErrorsHaveTheFormOfTheInterface) {
  const std::string model = head_model(folder_ / "one", "distilbert_classes");
  TestServer server({model});
  for (const auto& [path, documents, form, status] :
       {std::tuple("/v1/rerank", "documents", "detail", 422), std::tuple("/v2/rerank", "documents", "message", 400),
        std::tuple("/rerank", "texts", "error", 422)}) {
    for (const char* const wrong :
         {"7", "[]", "null", "{\"document\":-1}", "{\"document\":9}", "{\"class\":7}", "{\"class\":\"x\"}",
          "{\"method\":\"ig\",\"steps\":0}", "{\"method\":\"ig\",\"baseline\":[1]}", "{\"by\":{}}",
          "{\"method\":\"ig\",\"baseline\":99999}", "{\"against\":\"\"}"}) {
      const Json body = {{"query", "q"}, {documents, {"a", "b"}}, {"vitrine", {{"attribute", Json::parse(wrong)}}}};
      const HttpResponse response = server.post(path, body);
      EXPECT_TRUE(response.status == status || response.status == 400) << path << wrong << response.body;
      EXPECT_TRUE(response.json().contains(form)) << path << wrong << response.body;
    }
  }
  EXPECT_EQ(server.stop().status, 0);
  TestServer closed({model, "--no-inspect"});
  const Json body = {{"query", "q"}, {"texts", {"a"}}, {"vitrine", {{"attribute", Json::object()}}}};
  EXPECT_EQ(closed.post("/rerank", body).status, 403);
  EXPECT_EQ(closed.stop().status, 0);
}

TEST_F(ServeAttribute, WrongRequestsAreNamed) {
  TestServer server({model("bert_classes")});
  const auto refusal = [&](const Json& own) {
    const HttpResponse response = server.post("/classify", {{"input", "a"}, {"vitrine", own}});
    EXPECT_EQ(response.status, 400) << response.body;
    return response.json()["error"]["message"].get<std::string>();
  };
  const auto attribute = [&](const Json& wishes) { return refusal({{"attribute", wishes}}); };
  EXPECT_THAT(refusal({{"attribute", 7}}), HasSubstr("vitrine.attribute"));
  EXPECT_THAT(attribute(Json::object()), HasSubstr("LABEL_2"));
  EXPECT_THAT(attribute({{"class", "other"}}), HasSubstr("vitrine.attribute.class"));
  EXPECT_THAT(attribute({{"class", "LABEL_0"}, {"document", 1}}), HasSubstr("vitrine.attribute.document"));
  EXPECT_THAT(attribute({{"class", "LABEL_0"}, {"method", "lime"}}), HasSubstr("vitrine.attribute.method"));
  EXPECT_THAT(attribute({{"class", "LABEL_0"}, {"method", "ig"}, {"baseline", "zebra"}}), HasSubstr("baseline"));
  EXPECT_THAT(attribute({{"class", "LABEL_0"}, {"method", "ig"}, {"steps", 4096}}), HasSubstr("256"));
  EXPECT_THAT(attribute({{"class", "LABEL_0"}, {"clas", "a"}}), HasSubstr("clas"));
  EXPECT_THAT(refusal({{"attribute", {{"class", "LABEL_0"}}}, {"set", {"head.hook_out=0"}}}), HasSubstr("set"));
  EXPECT_EQ(server.stop().status, 0);
  TestServer tags({model("bert_tags")});
  const Json body = {{"inputs", "a"}, {"vitrine", {{"attribute", Json::object()}}}};
  EXPECT_EQ(tags.post("/predict", body).status, 400) << "labels of tokens";
  EXPECT_EQ(tags.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
