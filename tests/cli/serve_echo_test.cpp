// vitrine serve: prompts that are echoed with their log-probabilities, whole and streamed.
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

const std::string kPrompt = "Once upon a time";

class ServeEcho : public testing::Test {
 protected:
  ServeEcho() : server_({"--access-log", folder_ / "log"}) {}
  void TearDown() override { EXPECT_EQ(server_.stop().status, 0); }

  Json completion(Json fields) const {
    if (!fields.contains("prompt")) fields["prompt"] = kPrompt;
    const HttpResponse response = server_.post("/v1/completions", fields);
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }

  const TempFolder folder_;
  TestServer server_;
};

TEST_F(ServeEcho, AnEchoScoresThePrompt) {
  const Json reply = completion({{"max_tokens", 0}, {"echo", true}, {"logprobs", 1}});
  const Json& choice = reply["choices"][0];
  EXPECT_EQ(choice["text"], kPrompt);
  EXPECT_EQ(choice["finish_reason"], "length");
  const Json predicted = json_of({"predict", kPrompt, "--top", "1"});
  const Json& logprobs = choice["logprobs"]["token_logprobs"];
  ASSERT_EQ(logprobs.size(), predicted["tokens"].size());
  EXPECT_TRUE(logprobs[0].is_null());
  for (std::size_t i = 1; i < logprobs.size(); ++i) {
    const Json& top = predicted["tokens"][i - 1]["top"][0];
    if (top["id"] == predicted["tokens"][i]["id"]) {
      EXPECT_EQ(logprobs[i], top["logprob"]);
    }
    EXPECT_LT(logprobs[i], 0);
  }
}

TEST_F(ServeEcho, AStreamedEchoHasTheLogprobsOfTheWholeResponse) {
  Json fields = {{"prompt", kPrompt + ", in a land far away"}, {"max_tokens", 4}, {"echo", true}, {"logprobs", 1}};
  fields["seed"] = 8;
  const Json whole = completion(fields)["choices"][0];
  fields["stream"] = true;
  std::string text;
  Json logprobs = {{"tokens", Json::array()}, {"token_logprobs", Json::array()}, {"text_offset", Json::array()}};
  for (const Json& event : server_.post("/v1/completions", fields).events()) {
    const Json& choice = event["choices"][0];
    text += choice["text"];
    if (choice["logprobs"].is_null()) continue;
    for (const auto& [name, list] : logprobs.items()) {
      for (const Json& value : choice["logprobs"][name]) list.push_back(value);
    }
  }
  EXPECT_EQ(text, whole["text"]);
  for (const auto& [name, list] : logprobs.items()) EXPECT_EQ(list, whole["logprobs"][name]) << name;
}

}  // namespace
}  // namespace vitrine::test
