// The fields that read and change values, and requests for traces.
#include <algorithm>

#include "serve/completion_request.h"
#include "serve/served.h"
#include "serve/site_fields.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

class Sites : public ServedModelTest {
 protected:
  Sites() : checkpoint_(golden_checkpoint("gemma2")) {
    model_.model = checkpoint_.model.get();
    model_.max_seq_len = model_.model->config().max_seq_len;
  }
  CompletionRequest with(const std::string& fields, const std::string& more = R"("max_tokens": 5)") const {
    return parse_completion(model_, R"({"prompt": [[1, 2, 3], [4, 5]], "vitrine": {)" + fields + "}, " + more + "}", 1);
  }
  void expect_error(const std::string& fields, const std::string& param, const std::string& part,
                    int status = 400) const {
    SCOPED_TRACE(fields);
    expect_refusal([&] { with(fields); }, status, param, {part});
  }

  const Checkpoint checkpoint_;
};

TEST_F(Sites, EverySequenceHasTapsOfItsOwn) {
  const CompletionRequest request =
      with(R"("sites": ["hook_embed"], "set": ["blocks.1.hook_resid_post[2:,1]*=2"])", R"("n": 2)");
  ASSERT_EQ(request.recorders.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(request.sequence(i, model_.defaults).taps, request.recorders[i]);
    EXPECT_EQ(std::count(request.recorders.begin(), request.recorders.end(), request.recorders[i]), 1);
    EXPECT_TRUE(request.recorders[i]->writes());
    EXPECT_TRUE(request.recorders[i]->wants({Site::embed}));
  }
  EXPECT_TRUE(with("").recorders.empty()) << "without sites a prefix may be shared";
  EXPECT_TRUE(with(R"("sites": [], "set": null)").reports_ids);
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 3, "vitrine": {"sites": ["hook_embed"]}})";
  EXPECT_EQ(parse_chat(model_, chat, 1).recorders.size(), 1U);
}

TEST_F(Sites, ErrorsNameTheField) {
  expect_error(R"("sites": ["blocks.99.hook_resid_post"])", "vitrine.sites", "no site of this model matches");
  expect_error(R"("sites": "hook_embed")", "vitrine.sites", "a list of strings");
  expect_error(R"("sites": [1])", "vitrine.sites", "strings, got 1");
  expect_error(R"("sites": [""])", "vitrine.sites", "1 to 256 bytes");
  expect_error(R"("sites": [")" + std::string(300, '*') + R"("])", "vitrine.sites", "1 to 256 bytes");
  expect_error(R"("set": ["hook_embed"])", "vitrine.set", "= is missing");
  expect_error(R"("set": ["hook_embed[0,100000]=1"])", "vitrine.set", "out of range");
  expect_error(R"("set": ["hook_embed[-1]=1"])", "vitrine.set", "no last token");
  expect_error(R"("set": ["hook_embed=@/etc/passwd"])", "vitrine.set", "names no file");
  expect_error(R"("sites": ["blocks.0.attn.hook_scores_raw"])", "vitrine.sites", "later positions");
  expect_error(R"("sites": [)" + std::string(300 * 4, ' ') + Json(std::string(9, 'x')).dump() + "]", "vitrine.sites",
               "no site");
}

TEST_F(Sites, SizesAreComputedFirst) {
  const std::int64_t d = model_.model->config().d_model;
  model_.max_trace_bytes = 4 * d * (3 + 4 + 2 + 4);  // of both prompts and four of five new tokens each
  EXPECT_EQ(with(R"("sites": ["hook_embed"])").recorders.size(), 2U);
  model_.max_trace_bytes -= 1;
  expect_error(R"("sites": ["hook_embed"])", "vitrine.sites",
               "at most " + std::to_string(model_.max_trace_bytes) + "; select fewer");
  EXPECT_EQ(with(R"("sites": ["hook_embed"])", R"("max_tokens": 4)").recorders.size(), 2U);
  EXPECT_NO_THROW(with(R"("set": ["hook_embed=1"])", R"("max_tokens": 50)")) << "writes return nothing";
}

TEST_F(Sites, MayBeForbidden) {
  model_.can_inspect = false;
  for (const char* fields : {"", R"("sites": ["hook_embed"])", R"("set": ["hook_embed=0"])"}) {
    expect_error(fields, "", "does not let requests read", 403);
  }
  expect_refusal([&] { parse_trace(model_, R"({"prompt": [1]})"); }, 403, "");
}

TEST_F(Sites, OfTraces) {
  const TraceRequest request = parse_trace(model_, R"({"prompt": [1, 2, 3], "set": ["hook_embed[-1]=0"]})");
  EXPECT_EQ(request.ids, (Ids{1, 2, 3}));
  EXPECT_EQ(request.sequence().max_tokens, 0);
  EXPECT_EQ(request.sequence().taps, request.recorder);
  const auto expect = [&](const std::string& body, const std::string& param, const std::string& part) {
    SCOPED_TRACE(body);
    expect_refusal([&] { parse_trace(model_, body); }, 400, param, {part});
  };
  expect("{}", "prompt", "");
  expect(R"({"prompt": [[1], [2]]})", "prompt", "one text, got 2");
  expect(R"({"prompt": [1], "site": []})", "site", "did you mean sites?");
  expect(R"({"prompt": [1], "sites": ["x"]})", "sites", "no site");
  expect(R"({"prompt": [1], "set": ["hook_embed[1]=0"]})", "set", "out of range");
  expect(R"({"prompt": [1], "set": ["hook_embed=@x"]})", "set", "names no file");
  model_.max_trace_bytes = request.recorder->bytes() - 1;
  expect(R"({"prompt": [1, 2, 3]})", "sites", std::to_string(request.recorder->bytes()) + " bytes");
  model_.can_generate = false;
  expect(R"({"prompt": [1]})", "model", "does not continue texts");
}

}  // namespace
}  // namespace vitrine::test
