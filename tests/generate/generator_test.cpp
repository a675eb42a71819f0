// Generation end to end: the reference text, sequences batched and alone, finish reasons.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "generate/generator.h"
#include "generate/score.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

struct Stories {
  Checkpoint checkpoint;
  std::unique_ptr<const Tokenizer> tokenizer;
  ThreadPool pool{2};
  const Kernels* kernels = &default_kernels();

  GenerateContext context() const {
    return {checkpoint.model.get(), const_cast<ThreadPool*>(&pool), kernels, tokenizer.get()};
  }
  GenerateRequest request(const std::string& text, std::int64_t max_tokens) const {
    GenerateRequest r;
    r.prompt = tokenizer->encode(text, SpecialTokens::apply);
    r.max_tokens = max_tokens;
    r.stop_ids = checkpoint.stop_ids;
    return r;
  }
};

class Generate : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = outside_data("models/stories260K");
    if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no models/stories260K";
    s_.checkpoint = load_checkpoint(folder + "/stories260K.bin");
    s_.tokenizer = load_tokenizer(folder + "/tok512.bin");
    std::ostringstream text;
    text << std::ifstream(folder + "/greedy_200_tokens.txt").rdbuf();
    greedy_ = text.str();
  }

  Stories s_;
  std::string greedy_;
};

TEST_F(Generate, TwoHundredGreedyTokensByteForByte) {
  for (const Isa isa : available_isas()) {
    s_.kernels = &kernels_for(isa);
    GenerateRequest r = s_.request("", 200);
    r.sampling.temperature = 0;
    std::string streamed;
    const auto results =
        generate(s_.context(), {&r, 1}, [&](std::size_t, const std::string& text) { streamed += text; });
    EXPECT_EQ(results[0].text, greedy_) << name_of(isa);
    EXPECT_EQ(streamed, greedy_);
    EXPECT_EQ(results[0].ids.size(), 200u);
    EXPECT_EQ(results[0].finish_reason, FinishReason::length);
  }
}

TEST_F(Generate, SequencesTogetherAreSequencesAlone) {
  std::vector<GenerateRequest> requests;
  const char* prompts[] = {"", "Once upon a time", "The little dog", "Lily"};
  for (std::uint64_t i = 0; i < 4; ++i) {
    GenerateRequest r = s_.request(prompts[i], 20 + 17 * static_cast<std::int64_t>(i));
    r.seed = 11;
    r.sequence = i;
    r.n_logprobs = 2;
    requests.push_back(r);
  }
  const auto together = generate(s_.context(), requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto alone = generate(s_.context(), {&requests[i], 1});
    EXPECT_EQ(together[i].ids, alone[0].ids) << i;
    EXPECT_EQ(together[i].text, alone[0].text) << i;
    ASSERT_EQ(together[i].logprobs.size(), alone[0].logprobs.size());
    for (std::size_t t = 0; t < alone[0].logprobs.size(); ++t) {
      EXPECT_EQ(together[i].logprobs[t].logprob, alone[0].logprobs[t].logprob);
    }
  }
  EXPECT_NE(together[0].ids, together[1].ids);
}

TEST_F(Generate, ASeedReproduces) {
  GenerateRequest r = s_.request("Once upon a time", 40);
  r.seed = 5;
  const auto first = generate(s_.context(), {&r, 1});
  EXPECT_EQ(first[0].ids, generate(s_.context(), {&r, 1})[0].ids);
  r.seed = 6;
  EXPECT_NE(first[0].ids, generate(s_.context(), {&r, 1})[0].ids);
}

TEST_F(Generate, StopStringsAndStopIds) {
  GenerateRequest r = s_.request("", 200);
  r.sampling.temperature = 0;
  r.stop_strings = {" big, red"};
  const auto by_text = generate(s_.context(), {&r, 1});
  EXPECT_EQ(by_text[0].text, greedy_.substr(0, greedy_.find(" big, red")));
  EXPECT_EQ(by_text[0].finish_reason, FinishReason::stop);

  r.stop_strings.clear();
  r.stop_ids = {by_text[0].ids[5]};
  const auto by_id = generate(s_.context(), {&r, 1});
  EXPECT_EQ(by_id[0].finish_reason, FinishReason::stop);
  EXPECT_LE(by_id[0].ids.size(), 5u);
}

TEST_F(Generate, TheContextIsTheLimit) {
  GenerateRequest r = s_.request("Once upon a time", 100000);
  r.stop_ids.clear();
  const auto result = generate(s_.context(), {&r, 1});
  EXPECT_EQ(r.prompt.size() + result[0].ids.size(), 513u);  // 512 fed, and the token that follows
  EXPECT_EQ(result[0].finish_reason, FinishReason::length);

  r.prompt.assign(600, 5);
  try {
    generate(s_.context(), {&r, 1});
    FAIL() << "600 tokens in a context of 512";
  } catch (const BadInput& e) {
    EXPECT_NE(std::string(e.what()).find("600"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("512"), std::string::npos);
  }
}

TEST_F(Generate, RefusesBadRequests) {
  GenerateRequest r = s_.request("a", 5);
  r.prompt = {512};
  EXPECT_THROW(generate(s_.context(), {&r, 1}), BadInput);
  r.prompt = {-1};
  EXPECT_THROW(generate(s_.context(), {&r, 1}), BadInput);
  r.prompt = {};
  EXPECT_THROW(generate(s_.context(), {&r, 1}), BadInput);
  r = s_.request("a", -1);
  EXPECT_THROW(generate(s_.context(), {&r, 1}), BadInput);
}

TEST_F(Generate, AnInterruptEndsIt) {
  std::atomic<bool> interrupt = false;
  GenerateContext context = s_.context();
  context.interrupt = &interrupt;
  GenerateRequest r = s_.request("", 500);
  EXPECT_THROW(generate(context, {&r, 1}, [&](std::size_t, const std::string&) { interrupt = true; }), Interrupted);
}

TEST_F(Generate, ScoreIsOneForward) {
  const std::vector<std::int32_t> ids = some_ids(*s_.checkpoint.model, 400);
  std::vector<float> scored;
  score(s_.context(), ids, [&](std::int64_t first, const Tensor& t) {
    EXPECT_EQ(first * t.row_size(), static_cast<std::int64_t>(scored.size()));
    scored.insert(scored.end(), t.data, t.data + t.count());
  });
  EXPECT_TRUE(same_bits(scored, logits_of(*s_.checkpoint.model, ids)));
}

}  // namespace
}  // namespace vitrine::test
