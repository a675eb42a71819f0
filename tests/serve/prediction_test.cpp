// OpenAI's field `prediction`, and what a reply counts of it.
#include <gtest/gtest.h>

#include "serve/completion_reply.h"
#include "served.h"

namespace vitrine::test {
namespace {

class Prediction : public RequestTest {
 protected:
  std::vector<std::int32_t> prediction_of(const std::string& value) const {
    return chat(R"("prediction": )" + value).sequence(0, model_.defaults).prediction;
  }
};

TEST_F(Prediction, IsProposed) {
  const std::vector<std::int32_t> ids = ids_of("Once upon a time", SpecialTokens::none);
  EXPECT_EQ(prediction_of(R"({"type": "content", "content": "Once upon a time"})"), ids);
  EXPECT_EQ(prediction_of(R"({"type": "content", "content": [{"type": "text", "text": "Once upon"},
                                                             {"type": "text", "text": " a time"}]})"),
            ids);
  EXPECT_TRUE(prediction_of(R"({"type": "content", "content": ""})").empty());
  EXPECT_TRUE(prediction_of("null").empty());
  expect_chat_error(R"("prediction": {"type": "other", "content": "x"})", "prediction.type", "other");
  expect_chat_error(R"("prediction": {"type": "content"})", "prediction.content");
  expect_chat_error(R"("prediction": {"type": "content", "content": 5})", "prediction.content");
  expect_chat_error(R"("prediction": {"type": "content", "content": [{"type": "image", "text": "x"}]})",
                    "prediction.content[0].type", "image");
  expect_chat_error(R"("prediction": {"type": "content", "content": "x", "more": 1})", "prediction.more");
  expect_chat_error(R"("prediction": "x")", "prediction");
}

TEST_F(Prediction, UsageCountsWhatWasProposed) {
  const CompletionRequest request = completion(R"("n": 2)");
  CompletionReply reply(model_, request, "1", 2);
  GenerateResult result;
  result.ids = {5, 6, 7};
  Json usage = reply.whole(std::vector<GenerateResult>{result, result})["usage"];
  EXPECT_FALSE(usage.contains("completion_tokens_details")) << "nothing could be proposed";
  result.speculation = SpeculationCounts{7, 4, 2};
  usage = CompletionReply(model_, request, "1", 2).whole(std::vector<GenerateResult>{result, result})["usage"];
  EXPECT_EQ(usage["completion_tokens_details"]["accepted_prediction_tokens"], 8);
  EXPECT_EQ(usage["completion_tokens_details"]["rejected_prediction_tokens"], 6);
  EXPECT_EQ(usage["completion_tokens"], 6);
}

}  // namespace
}  // namespace vitrine::test
