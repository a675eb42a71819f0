// Requests that read and write the features of dictionaries (VITRINE_DATA/features).
#include "features/load_dictionary.h"
#include "generate/generator.h"
#include "generate/prefix_cache.h"
#include "serve/completion_reply.h"
#include "serve/served.h"
#include "serve/site_fields.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

constexpr const char* kActs = "blocks.1.hook_resid_post.hook_sae_acts_post";

class Features : public ServedModelTest {
 protected:
  void SetUp() override {
    const std::string folder = outside_data("features");
    if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no features";
    checkpoint_ = load_checkpoint(folder + "/gpt2");
    model_.model = checkpoint_.model.get();
    model_.max_seq_len = model_.model->config().max_seq_len;
    model_.vocab_size = model_.model->config().vocab_size;
    model_.defaults.stop_ids = {};
    ThreadPool pool(1);
    for (const char* const name : {"saelens-gated", "saelens-jumprelu_skip_transcoder"}) {
      for (auto& own : load_dictionaries({"", folder + "/" + name, ""}, *model_.model, pool)) {
        modifiers_.dictionaries.push_back({std::move(own)});
      }
    }
    model_.modifiers = &modifiers_;
  }

  CompletionRequest with(const std::string& fields, const std::string& prompt = "[5, 6, 7, 8, 9]") const {
    return parse_completion(
        model_, R"({"prompt": )" + prompt + R"(, "max_tokens": 8, "temperature": 0, "logprobs": 3, )" + fields + "}",
        1);
  }
  static std::string own(const std::string& fields) { return R"("vitrine": {)" + fields + "}"; }

  /// The responses of requests that run together, as the field `choices`.
  std::vector<Json> run(std::span<const std::string> all, int n_threads, PrefixCache* prefixes = nullptr) const {
    ThreadPool pool(n_threads);
    GenerateContext context{model_.model, &pool, &default_kernels(), nullptr};
    context.prefixes = prefixes;
    Engine engine(context);
    std::vector<CompletionRequest> requests;
    for (const std::string& fields : all) requests.push_back(with(fields));
    for (const CompletionRequest& request : requests) engine.add(request.sequence(0, model_.defaults));
    std::vector<Json> replies(all.size());
    while (!engine.empty()) {
      for (SequenceStep& step : engine.step(3).sequences) {
        if (step.error) std::rethrow_exception(step.error);
        if (!step.result) continue;
        CompletionReply reply(model_, requests[step.id], "1", 0);
        replies[step.id] = reply.whole({&*step.result, 1})["choices"];
      }
    }
    return replies;
  }
  std::vector<Json> run(const std::string& fields) const { return run(std::span(&fields, 1), 1); }

  Checkpoint checkpoint_;
  ServedModifiers modifiers_;
};

const std::string kSteered = R"("set": ["blocks.1.hook_resid_post.hook_sae_acts_post[3:,7]+=30"])";

TEST_F(Features, AreReportedOfAllPositionsThatWereFed) {
  const Json reply = run(own(R"("features": {"top": 4}, "sites": [")" + std::string(kActs) + R"("])"))[0];
  const Json& own = reply[0]["vitrine"];
  ASSERT_EQ(own["features"].size(), 2U);
  const Json& sae = own["features"][0];
  EXPECT_EQ(sae["name"], Json());
  EXPECT_EQ(sae["site"], "blocks.1.hook_resid_post");
  EXPECT_EQ(sae["d_sae"], 40);
  EXPECT_EQ(own["features"][1]["site"], "blocks.1.hook_mlp_out");
  ASSERT_EQ(sae["tokens"].size(), 5U + 7U) << "the last token is not fed";
  const std::vector<ActiveFeatures> read = [&] {  // of one pass over the same ids
    std::vector<std::int32_t> ids = own["prompt_ids"].get<std::vector<std::int32_t>>();
    for (const Json& id : own["ids"]) ids.push_back(id.get<std::int32_t>());
    ids.pop_back();
    ThreadPool pool(2);
    GenerateContext context{model_.model, &pool, &default_kernels(), nullptr};
    context.modifiers.dictionaries = modifiers_.dictionaries;
    return read_features(context, ids, 4);
  }();
  for (std::size_t s = 0; s < read.size(); ++s) {
    for (std::size_t t = 0; t < read[s].rows.rows.size(); ++t) {
      EXPECT_EQ(own["features"][s]["tokens"][t], features_json(read[s].rows.rows[t])) << s << ", " << t;
    }
  }
  EXPECT_FALSE(sae["tokens"][3].empty());
  EXPECT_FALSE(run(this->own(R"("sites": [])"))[0][0]["vitrine"].contains("features"));
}

TEST_F(Features, OfOneClientChangeNoBitOfAnother) {
  const std::string acts = kActs;
  const std::vector<std::string> all = {
      R"("seed": 1)",
      own(kSteered + R"(, "features": {})"),
      own(R"("features": {"top": 2})"),
      own(R"("set": ["blocks.1.hook_mlp_out.hook_sae_acts_post[:,22]=5"], "sites": ["hook_logits"])"),
      own(R"("sae_use": "replace", "features": {})"),
      own(R"("sae_use": "read", "set": [")" + acts + R"([:,7]+=30"])"),
      R"("seed": 2)",
      own(R"("sites": ["*.hook_sae_error", ")" + acts + R"("])")};
  std::vector<Json> alone;
  for (const std::string& fields : all) alone.push_back(run(fields)[0]);
  for (const int n_threads : {1, 2}) {
    PrefixCache prefixes;
    for (int round = 0; round < 2; ++round) {
      const std::vector<Json> together = run(all, n_threads, &prefixes);
      for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(together[i], alone[i]) << all[i] << ", round " << round;
    }
  }
  const auto logprobs = [&](std::size_t i) { return alone[i][0]["logprobs"]; };
  EXPECT_EQ(logprobs(2), logprobs(0)) << "reading changes nothing";
  EXPECT_EQ(logprobs(5), logprobs(0)) << "nor does a write that is only read";
  for (const std::size_t i : {1U, 3U, 4U}) EXPECT_NE(logprobs(i), logprobs(0)) << all[i];
}

/// A steered client has what `generate --sae --set` gives.
TEST_F(Features, SteeredAreThoseOfGenerate) {
  ThreadPool pool(1);
  GenerateContext context{model_.model, &pool, &default_kernels(), nullptr};
  context.modifiers.dictionaries = modifiers_.dictionaries;
  GenerateRequest request = with(R"("seed": 1)").sequence(0, model_.defaults);
  std::vector<SiteWrite> writes = {parse_site_write(std::string(kActs) + "[3:,7]+=30")};
  request.taps = std::make_shared<SequenceRecorder>(*model_.model, std::vector<std::string>{}, std::move(writes),
                                                    modifiers_.dictionaries);
  const std::int64_t n_prompt = std::ssize(request.prompt);
  const GenerateResult result = generate(context, {&request, 1})[0];
  const Json steered = run(own(kSteered))[0][0];
  EXPECT_EQ(steered["vitrine"]["ids"], Json(result.ids));
  ASSERT_EQ(steered["logprobs"]["token_logprobs"].size(), result.logprobs.size());
  for (std::size_t i = 0; i < result.logprobs.size(); ++i) {
    EXPECT_EQ(steered["logprobs"]["token_logprobs"][i].get<double>(), static_cast<double>(result.logprobs[i].logprob));
  }
  const Json features = run(own(kSteered + R"(, "features": {"top": 1})"))[0][0]["vitrine"]["features"][0]["tokens"];
  for (std::int64_t t = 3; t < n_prompt + 7; ++t) {
    EXPECT_EQ(features[static_cast<std::size_t>(t)][0]["index"], 7) << "after any write, also of generated tokens";
  }
}

TEST_F(Features, ErrorsNameTheField) {
  const auto expect = [&](const std::string& fields, const std::string& param, const std::string& part) {
    SCOPED_TRACE(fields);
    expect_refusal([&] { with(own(fields)); }, 400, param, {part});
  };
  expect(R"("features": 3)", "vitrine.features", "");
  expect(R"("features": {"top": 0})", "vitrine.features.top", "from 1 to");
  expect(R"("features": {"best": 1})", "vitrine.features.best", "");
  expect(R"("sae_use": "write")", "vitrine.sae_use", "expected read, error or replace");
  expect(R"("set": ["blocks.1.hook_resid_post.hook_sae_acts_post[:,40]=1"])", "vitrine.set", "out of range");
  expect(R"("set": ["blocks.2.hook_resid_post.hook_sae_acts_post=1"])", "vitrine.set", "no site of this model matches");
  model_.max_trace_bytes = 12 * 2 * 5 * 8;
  EXPECT_NO_THROW(with(own(R"("features": {})")));
  model_.max_trace_bytes -= 1;
  expect(R"("features": {})", "vitrine.features", "select fewer");
  model_.modifiers = nullptr;
  expect(R"("features": {})", "vitrine.features", "the server has no dictionaries");
  expect(R"("sae_use": "read")", "vitrine.sae_use", "the server has no dictionaries");
  model_.modifiers = &modifiers_;
  model_.can_inspect = false;
  expect_refusal([&] { with(own(R"("sae_use": "replace")")); }, 403, "", {"does not let requests"});
}

TEST_F(Features, OfTraces) {
  const TraceRequest request = parse_trace(
      model_, R"({"prompt": [5, 6, 7], "sites": ["*.hook_sae_acts_post"], "set": ["blocks.1.hook_resid_post[-1]=0"]})");
  ASSERT_TRUE(request.modifiers.has_value());
  EXPECT_EQ(request.modifiers->dictionaries.size(), 2U);
  EXPECT_EQ(request.recorder->max_sites(), 2);
}

TEST_F(Features, AreNotAttachedForOthers) {
  EXPECT_FALSE(with(R"("seed": 1)").sequence(0, model_.defaults).modifiers.has_value());
  EXPECT_EQ(with(own(R"("sites": [])")).sequence(0, model_.defaults).taps, nullptr);
}

}  // namespace
}  // namespace vitrine::test
