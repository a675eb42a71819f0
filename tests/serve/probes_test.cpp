// Requests that read the logits of probes at every token.
#include "features/made_dictionary.h"
#include "serve/completion_reply.h"
#include "serve/served.h"
#include "serve/site_fields.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

class Probes : public ServedModelTest {
 protected:
  void SetUp() override {
    model_.model = checkpoint_.model.get();
    model_.max_seq_len = model_.model->config().max_seq_len;
    model_.vocab_size = model_.model->config().vocab_size;
    model_.defaults.stop_ids = {};
    made_.own.decoder = made_.own.decoder_bias = made_.own.subtracted = {};
    made_.own.name = "mood";
    modifiers_.dictionaries = {
        {std::shared_ptr<const Dictionary>(std::shared_ptr<void>(), &made_.own), DictionaryUse::read}};
    model_.modifiers = &modifiers_;
  }

  CompletionRequest with(const std::string& fields) const {
    return parse_completion(
        model_, R"({"prompt": [5, 6, 7], "max_tokens": 4, "temperature": 0, "vitrine": {)" + fields + "}}", 1);
  }
  /// The reports of requests that run together.
  std::vector<Json> run(const std::vector<std::string>& all) const {
    ThreadPool pool(2);
    const GenerateContext context{model_.model, &pool, &default_kernels(), nullptr};
    Engine engine(context);
    std::vector<CompletionRequest> requests;
    for (const std::string& fields : all) requests.push_back(with(fields));
    for (const CompletionRequest& request : requests) engine.add(request.sequence(0, model_.defaults));
    std::vector<Json> replies(all.size());
    while (!engine.empty()) {
      for (SequenceStep& step : engine.step(2).sequences) {
        if (step.error) std::rethrow_exception(step.error);
        if (!step.result) continue;
        CompletionReply reply(model_, requests[step.id], "1", 0);
        replies[step.id] = reply.whole({&*step.result, 1})["choices"][0]["vitrine"];
      }
    }
    return replies;
  }
  std::string refusal(const std::string& fields) const {
    try {
      with(fields);
    } catch (const RequestError& e) {
      return e.what();
    }
    return "";
  }

  Checkpoint checkpoint_ = golden_checkpoint("gpt2");
  Made made_{checkpoint_.model->config().d_model, 3};
  ServedModifiers modifiers_;
};

TEST_F(Probes, AreReportedOfAllPositionsThatWereFed) {
  const std::vector<Json> replies = run({R"("sites": ["probe.*", "blocks.1.hook_resid_post"])", R"("sites": [])"});
  ASSERT_EQ(replies[0]["probes"].size(), 1U);
  const Json& probe = replies[0]["probes"][0];
  EXPECT_EQ(probe["name"], "mood");
  ASSERT_EQ(probe["tokens"].size(), 6U) << "the last token is not fed";
  for (const Json& logits : probe["tokens"]) EXPECT_EQ(logits.size(), 3U);
  ASSERT_EQ(replies[0]["sites"].size(), 2U);
  EXPECT_EQ(replies[0]["sites"][1]["name"], "probe.mood");
  EXPECT_EQ(replies[0]["sites"][1]["shape"], Json({6, 3}));
  EXPECT_FALSE(replies[1].contains("probes"));
  EXPECT_EQ(replies[0]["ids"], replies[1]["ids"]);
  EXPECT_EQ(run({R"("sites": ["probe.mood"])"})[0]["probes"], replies[0]["probes"]) << "alone as among others";
}

TEST_F(Probes, AreRefusedByName) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal(R"("features": {})"), HasSubstr("the server has no dictionaries"));
  EXPECT_THAT(refusal(R"("sae_use": "replace")"), HasSubstr("the server has no dictionaries"));
  EXPECT_THAT(refusal(R"("set": ["probe.mood=1"])"), HasSubstr("a probe is only read"));
  EXPECT_THAT(refusal(R"("sites": ["probe.none"])"), HasSubstr("no site of this model matches probe.none"));
}

}  // namespace
}  // namespace vitrine::test
