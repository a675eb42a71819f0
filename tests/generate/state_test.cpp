// Models whose layers have states: any chunks, prefixes, turns, and ways back have the bits of the whole text.
#include <gtest/gtest.h>

#include "base/temp_folder.h"
#include "generate/generator.h"
#include "generate/prefix_cache.h"
#include "generate/score.h"
#include "support/run.h"
#include "support/state_models.h"

namespace vitrine::test {
namespace {

std::vector<std::pair<std::int32_t, double>> reported(const GenerateResult& result) {
  std::vector<std::pair<std::int32_t, double>> tokens;
  for (const TokenReport& token : result.logprobs) tokens.emplace_back(token.id, token.logprob);
  return tokens;
}

class StateModels : public testing::TestWithParam<std::string> {
 protected:
  GenerateRequest request(std::int64_t n, std::int64_t max_tokens, std::uint64_t seed = 1) const {
    GenerateRequest request;
    request.prompt = some_ids(model_, n, seed);
    request.max_tokens = max_tokens;
    request.n_logprobs = 1;
    return request;
  }
  std::vector<float> logits(const std::vector<std::int32_t>& ids, std::int64_t chunk) {
    GenerateContext context = context_;
    context.chunk = chunk;
    std::vector<float> all;
    score(context, {ids},
          [&](std::int64_t, const Tensor& rows) { all.insert(all.end(), rows.data, rows.data + rows.count()); });
    return all;
  }

  const TempFolder folder_;
  const Checkpoint checkpoint_ = state_model(GetParam(), folder_ / "m");
  const Model& model_ = *checkpoint_.model;
  ThreadPool pool_{2};
  const GenerateContext context_{&model_, &pool_, &default_kernels()};
};

TEST_P(StateModels, ChunksOfAnyLengthGiveTheSameBits) {
  const std::vector<std::int32_t> ids = some_ids(model_, 140, 1);
  const std::vector<float> whole = logits(ids, 140);
  for (const std::int64_t chunk : {1, 2, 7, 64, 65}) EXPECT_TRUE(same_bits(logits(ids, chunk), whole)) << chunk;
}

/// Requests that begin as an earlier one read at most what comes after the last snapshot.
TEST_P(StateModels, PromptsBeginAtSnapshots) {
  GenerateContext context = context_;
  KvPool pool(std::int64_t{1} << 30, 16);
  context.kv_memory = &pool;
  for (const std::int64_t every : {256, 100}) {
    PrefixCache prefixes;
    context.prefixes = &prefixes;
    context.state_every = every;
    const GenerateRequest first = request(660, 5);
    GenerateRequest second = request(700, 5, 2);
    std::copy_n(first.prompt.begin(), 650, second.prompt.begin());
    const GenerateResult alone = generate(context_, {&second, 1})[0];
    const GenerateResult answer = generate(context, {&first, 1})[0];
    const GenerateResult got = generate(context, {&second, 1})[0];
    EXPECT_EQ(got.cached_tokens, 650 / every * every);
    EXPECT_EQ(reported(got), reported(alone));

    GenerateRequest turn = first;  // the next turn of the conversation: all but what comes after the answer
    turn.prompt.insert(turn.prompt.end(), answer.ids.begin(), answer.ids.end());
    turn.prompt.insert(turn.prompt.end(), {3, 4, 5});
    const GenerateResult next = generate(context, {&turn, 1})[0];
    EXPECT_EQ(next.cached_tokens, 664) << "the last token that was drawn was not fed";
    EXPECT_EQ(reported(next), reported(generate(context_, {&turn, 1})[0]));
    EXPECT_GT(prefixes.idle_bytes(), context.model->make_cache(1, {}).snapshot_bytes());
  }
}

/// A prompt that continues a cache, whose tokens it does not have, is one text with them.
TEST_P(StateModels, PromptsContinueCaches) {
  const GenerateRequest whole = request(50, 8);
  const GenerateResult expected = generate(context_, {&whole, 1})[0];
  for (const std::size_t n : {std::size_t{1}, std::size_t{20}, std::size_t{49}}) {
    GenerateRequest first = whole, rest = whole;
    first.prompt.resize(n);
    first.max_tokens = 0;
    first.n_logprobs = 0;
    first.cache = rest.cache = std::make_shared<KvCache>(context_.make_cache(57));
    generate(context_, {&first, 1});
    ASSERT_EQ(rest.cache->length(), static_cast<std::int64_t>(n)) << "without an answer, too, the prompt is read";
    rest.prompt.erase(rest.prompt.begin(), rest.prompt.begin() + static_cast<std::ptrdiff_t>(n));
    rest.continues_cache = true;
    rest.chunk = 7;
    rest.wants_prompt_logprobs = true;
    const GenerateResult got = generate(context_, {&rest, 1})[0];
    EXPECT_EQ(reported(got), reported(expected)) << n;
    EXPECT_EQ(rest.cache->length(), 57);
  }
}

/// A cache returns to any token of its last pass without reading it again, once and again, and continues with the bits
/// of a text that ended there.
TEST_P(StateModels, CachesReturnIntoTheirLastPass) {
  const std::vector<std::int32_t> ids = some_ids(model_, 80, 1), others = some_ids(model_, 10, 2);
  const auto read = [&](KvCache& cache, std::span<const std::int32_t> text) {
    std::vector<float> all;
    feed(context_, cache, {text}, 0,
         [&](std::int64_t, const Tensor& rows) { all.insert(all.end(), rows.data, rows.data + rows.count()); });
    return all;
  };
  for (const std::size_t before : {std::size_t{0}, std::size_t{1}, std::size_t{40}}) {
    KvCache cache = context_.make_cache(1000);
    cache.keep_last_pass();
    if (before > 0) read(cache, std::span(ids).first(before));
    read(cache, std::span(ids).subspan(before));
    for (const std::size_t length : {std::size_t{79}, std::size_t{78}, before + 2, before + 1, before}) {
      if (length > static_cast<std::size_t>(cache.length())) continue;
      EXPECT_EQ(cache.truncate(static_cast<std::int64_t>(length)), static_cast<std::int64_t>(length));
      KvCache copy = context_.make_cache(1000), fresh = context_.make_cache(1000);
      copy.copy_from(cache);
      if (length > 0) read(fresh, std::span(ids).first(length));
      EXPECT_TRUE(same_bits(read(copy, others), read(fresh, others))) << before << ", " << length;
    }
    if (before <= 1) continue;
    EXPECT_EQ(cache.truncate(1), 0) << "no snapshot";
  }
}

INSTANTIATE_TEST_SUITE_P(Small, StateModels, testing::ValuesIn(kStateModels), [](const auto& of) { return of.param; });

}  // namespace
}  // namespace vitrine::test
