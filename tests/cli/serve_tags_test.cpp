// Labels of tokens over HTTP: the spans that the command tag prints.
#include <gmock/gmock.h>

#include "cli/head_models.h"
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class ServeTags : public testing::Test {
 protected:
  std::string model(const std::string& golden) const {
    const std::string folder = head_model(folder_ / golden, golden);
    write_file(folder + "/tokenizer_config.json", R"({"model_max_length": 8})");
    return folder;
  }
  TempFolder folder_;
};

TEST_F(ServeTags, SpansAreTheCommands) {
  const std::string text = "a b c d e f";
  for (const char* const golden : {"bert_tags", "modernbert_tags"}) {
    const std::string folder = model(golden);
    const auto spans = [&](Arguments more, const std::string& of) {
      Arguments command = {"tag", folder, of};
      command.insert(command.end(), more.begin(), more.end());
      return json_of(command)["spans"];
    };
    TestServer server({folder});
    const auto answer = [&](const char* path, const Json& parameters) {
      return server.post(path, {{"inputs", text}, {"parameters", parameters}}).json();
    };
    ASSERT_FALSE(spans({"--aggregate", "none"}, text).empty());
    for (const char* const how : {"none", "simple", "first", "average", "max"}) {
      for (const char* const path : {"/", "/predict"}) {
        EXPECT_EQ(answer(path, {{"aggregation_strategy", how}}), spans({"--aggregate", how}, text)) << how;
      }
    }
    EXPECT_EQ(answer("/", {{"aggregation_strategy", "first"}, {"stride", 2}}),
              spans({"--aggregate", "first", "--stride", "2"}, text));
    const Json list = server.post("/predict", {{"inputs", {"q r", text}}}).json();
    ASSERT_EQ(list.size(), 2U) << list;
    EXPECT_EQ(list[0], spans({"--aggregate", "simple"}, "q r"));
    EXPECT_EQ(list[1], spans({"--aggregate", "simple"}, text)) << "the default";
    const Json one = server.post("/predict", {{"inputs", text}}).json();
    EXPECT_EQ(one, list[1]);
    const std::string label = one[0]["entity_group"];
    for (const Json& span : answer("/", {{"ignore_labels", {label}}})) EXPECT_NE(span["entity_group"], label);
    EXPECT_EQ(server.stop().status, 0);
  }
}

TEST_F(ServeTags, WrongRequestsAreNamed) {
  TestServer server({model("bert_tags")});
  const auto refusal = [&](const Json& body, int status) {
    const HttpResponse response = server.post("/predict", body);
    EXPECT_EQ(response.status, status) << body << response.body;
    return response.json()["error"].get<std::string>();
  };
  const auto parameters = [](const Json& values) { return Json({{"inputs", "a"}, {"parameters", values}}); };
  EXPECT_THAT(refusal({{"parameters", Json::object()}}, 422), HasSubstr("inputs"));
  EXPECT_THAT(refusal({{"inputs", Json::array()}}, 400), HasSubstr("at least one text"));
  EXPECT_THAT(refusal({{"inputs", {{"a", "b"}, {"c", "d"}}}}, 422), HasSubstr("inputs"));
  EXPECT_THAT(refusal(parameters({{"aggregation_strategy", "last"}}), 422), HasSubstr("average"));
  EXPECT_THAT(refusal(parameters({{"aggregation_strategy", "none"}, {"stride", 1}}), 422), HasSubstr("stride"));
  EXPECT_THAT(refusal({{"inputs", "a b c d e f g h"}, {"parameters", {{"stride", 6}}}}, 422), HasSubstr("stride"));
  EXPECT_THAT(refusal(parameters({{"top_k", 2}}), 422), HasSubstr("top_k"));
  EXPECT_THAT(refusal({{"inputs", "a"}, {"truncation_direction", "Left"}}, 422), HasSubstr("Right"));
  EXPECT_THAT(refusal({{"inputs", "a"}, {"raw_scores", true}}, 422), HasSubstr("raw_scores"));
  EXPECT_THAT(refusal({{"inputs", "a b c d e f g h"}, {"truncate", false}}, 413), HasSubstr("8"));
  EXPECT_EQ(server.post("/classify", {{"input", "a"}}).status, 400) << "it has no labels of texts";
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
