// Answers under a constraint: every one is permitted and ends, log-probabilities are the model's own, and what the
// constraint takes away is counted.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "generate/dry.h"
#include "generate/engine.h"
#include "generate/generator.h"
#include "support/run.h"
#include "support/stories.h"

namespace vitrine::test {
namespace {

using constrain::Source;

const Source kObject{Source::Kind::schema, R"({"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 8}, "ages": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
    "kind": {"enum": ["small and green", "large and blue"]}}, "required": ["name", "ages", "kind"]})"};
const Source kDate{Source::Kind::regex, "[0-9]{4}-(0[1-9]|1[0-2])(, [a-z]+)*"};
const Source kChoice{Source::Kind::choice, "", {"yes, it is", "yes, it was", "no"}};
const Source kGrammar{Source::Kind::grammar, "root ::= \"(\" root \")\" | [a-c]+"};

class Constrained : public StoriesTest {
 protected:
  GenerateRequest request(const Source& source, std::int64_t max_tokens, std::uint64_t seed, bool fast = false) {
    GenerateRequest r;
    r.prompt = tokenizer_->encode("Once upon a time", SpecialTokens::apply);
    r.max_tokens = max_tokens;
    r.stop_ids = checkpoint_.stop_ids;
    r.sampling = {.temperature = 1.5, .top_k = 0, .top_p = 1};
    r.seed = seed;
    r.n_logprobs = 1;
    r.answer.constraint = constraints_->get(source);
    if (fast) r.answer.fast_forward = constraints_->tokens();
    return r;
  }
  GenerateResult answer(const GenerateRequest& r) { return generate(context(), {&r, 1})[0]; }
};

TEST_F(Constrained, EveryAnswerIsPermittedAndEnds) {
  for (const Source& source : {kObject, kDate, kChoice, kGrammar}) {
    const std::int64_t shortest = constraints_->get(source)->shortest();
    for (const std::int64_t max_tokens : {shortest, shortest + 7, shortest + 60}) {
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        const GenerateResult found = answer(request(source, max_tokens, seed, seed % 2 == 0));
        EXPECT_EQ(found.finish_reason, FinishReason::stop) << found.text;
        EXPECT_LE(std::ssize(found.ids), max_tokens);
        constrain::Matcher matcher(constraints_->get(source));
        matcher.append(found.text);
        EXPECT_TRUE(matcher.is_complete()) << found.text;
      }
    }
  }
}

/// The rows of a whole forward over prompt and answer give each token's log-probability and what was removed.
TEST_F(Constrained, LogProbabilitiesAreTheModelsOwn) {
  for (const Source& source : {kObject, kDate, kChoice}) {
    for (const bool fast : {false, true}) {
      const GenerateRequest r = request(source, 80, 3, fast);
      const GenerateResult found = answer(r);
      std::vector<std::int32_t> ids = r.prompt;
      ids.insert(ids.end(), found.ids.begin(), found.ids.end());
      const std::vector<float> logits = logits_of(*checkpoint_.model, ids, {});
      const std::size_t vocab_size = logits.size() / ids.size();
      constrain::Matcher matcher(r.answer.constraint);
      ASSERT_EQ(found.logprobs.size(), found.ids.size());
      for (std::size_t i = 0; i < found.ids.size(); ++i) {
        const std::span<const float> row(&logits[(r.prompt.size() + i - 1) * vocab_size], vocab_size);
        EXPECT_EQ(found.logprobs[i].logprob, logprob(row, found.ids[i]));
        const constrain::Mask mask = matcher.mask(80 - static_cast<std::int64_t>(i));
        EXPECT_TRUE(mask.test(found.ids[i]));
        double removed = 0;
        for (std::size_t id = 0; id < vocab_size; ++id) {
          const bool is_stop = std::ranges::find(r.stop_ids, static_cast<std::int32_t>(id)) != r.stop_ids.end();
          const bool allowed = is_stop ? matcher.is_complete() : mask.test(static_cast<std::int32_t>(id));
          if (!allowed) removed += std::exp(logprob(row, static_cast<std::int32_t>(id)));
        }
        EXPECT_NEAR(found.logprobs[i].removed.value(), removed, 1e-9 * (1e-3 + removed));
        matcher.append(found.ids[i]);
      }
    }
  }
}

/// Forced text takes few rounds, and its tokens are the tokenizer's own.
TEST_F(Constrained, ForcedTextIsReadInOneRound) {
  const Source source{Source::Kind::regex, "the little dog sat on the big red mat and (slept|ran)\\."};
  const auto rounds = [&](bool fast) {
    Engine engine(context());
    engine.add(request(source, 200, 1, fast));
    int n = 0;
    for (; !engine.empty(); ++n) engine.step();
    return n;
  };
  EXPECT_LT(rounds(true), 12);
  EXPECT_GT(rounds(false), 12);
  const GenerateResult found = answer(request(source, 200, 1, true));
  const std::vector<std::int32_t> own = tokenizer_->encode(found.text, SpecialTokens::none);
  EXPECT_LE(found.ids.size(), own.size() + 4) << found.text;
}

/// The mask after a token is computed once, also by the search for text that must follow.
TEST_F(Constrained, TheNextTokensAreComputedOnce) {
  const std::vector<std::int32_t> stops;
  ConstrainedText text({constraints_->get({Source::Kind::regex, "abc[x-z]+"}), true});
  EXPECT_FALSE(text.take_forced(20, stops, 0, nullptr).size());
  const AllowedTokens& first = text.allowed(20, stops);
  const std::uint64_t* const mask = first.text.words().data();
  const std::int32_t id = first.text.first();
  EXPECT_EQ(text.allowed(20, stops).text.words().data(), mask);
  EXPECT_NE(text.allowed(19, stops).text.words().data(), mask) << "fewer tokens are left";
  text.append(id);
  std::vector<AllowedTokens> before;
  const std::vector<std::int32_t> forced = text.take_forced(19, stops, 10, &before);
  EXPECT_EQ(before.size(), forced.size());
  const AllowedTokens next = text.allowed(19 - std::ssize(forced), stops);
  ConstrainedText again({constraints_->get({Source::Kind::regex, "abc[x-z]+"}), true});
  again.append(id);
  for (const std::int32_t own : forced) again.append(own);
  EXPECT_TRUE(std::ranges::equal(next.text.words(), again.allowed(19 - std::ssize(forced), stops).text.words()));
}

TEST_F(Constrained, ManyAtOnceHaveTheirOwnAnswers) {
  std::vector<GenerateRequest> requests;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const Source& source = i % 3 == 0 ? kObject : i % 3 == 1 ? kGrammar : kChoice;
    requests.push_back(request(source, 70, i, i % 2 == 0));
    if (i % 4 == 3) requests.back().answer = {};
  }
  const std::vector<GenerateResult> together = generate(context(), requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const GenerateResult alone = answer(requests[i]);
    EXPECT_EQ(together[i].ids, alone.ids);
    for (std::size_t t = 0; t < alone.ids.size(); ++t) {
      EXPECT_EQ(together[i].logprobs[t].logprob, alone.logprobs[t].logprob);
      EXPECT_EQ(together[i].logprobs[t].removed, alone.logprobs[t].removed);
    }
  }
}

TEST_F(Constrained, BeamsStayWithinTheConstraint) {
  for (const Source& source : {kObject, kChoice}) {
    GenerateRequest r = request(source, 90, 0);
    r.sampling.temperature = 0;
    r.n_logprobs = 0;
    r.beam.n_beams = 3;
    const GenerateResult found = answer(r);
    constrain::Matcher matcher(constraints_->get(source));
    matcher.append(found.text);
    EXPECT_TRUE(matcher.is_complete()) << found.text;
    EXPECT_EQ(found.finish_reason, FinishReason::stop);
  }
}

TEST_F(Constrained, TooFewTokensAreRefusedWithBothNumbers) {
  const std::int64_t shortest = constraints_->get(kObject)->shortest();
  GenerateRequest r = request(kObject, shortest - 1, 0);
  try {
    answer(r);
    ADD_FAILURE() << "expected a refusal";
  } catch (const BadInput& e) {
    EXPECT_NE(std::string(e.what()).find(std::to_string(shortest)), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(std::to_string(shortest - 1)), std::string::npos) << e.what();
  }
  r.answer.must_finish = false;
  EXPECT_EQ(answer(r).finish_reason, FinishReason::length);
}

/// Alone and under a constraint, however tokens divide them.
TEST_F(Constrained, BannedStringsDoNotOccur) {
  const std::vector<std::string> texts = {"the", " a", "e.", "and", "She"};
  const auto banned = std::make_shared<const BannedStrings>(texts, constraints_->vocabulary());
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    GenerateRequest r = request(kDate, 60, seed);
    if (seed % 2 == 0) r.answer = {};
    r.banned = banned;
    const GenerateResult found = answer(r);
    for (const std::string& text : texts) EXPECT_EQ(found.text.find(text), std::string::npos) << found.text;
  }
  EXPECT_THROW(BannedStrings({""}, constraints_->vocabulary()), BadInput);
  EXPECT_THROW(BannedStrings(std::vector<std::string>(65, "x"), constraints_->vocabulary()), BadInput);
}

/// A repetition does not reach across a breaker.
TEST_F(Constrained, DryBreakersEndARepetition) {
  const DryBreakers breakers(*tokenizer_, {",", "."});
  const auto ids = tokenizer_->encode("Lily had a dog. Lily had", SpecialTokens::none);
  const auto after = tokenizer_->encode("Lily had", SpecialTokens::none);
  EXPECT_LE(breakers.limit(ids), after.size());
  EXPECT_GT(breakers.limit(ids), 0U);
  EXPECT_EQ(DryBreakers(*tokenizer_, {"#"}).limit(ids), ids.size());
}

TEST_F(Constrained, TheCacheForgetsWhatIsOld) {
  const auto first = constraints_->get(kObject);
  EXPECT_EQ(constraints_->get(kObject), first);
  constraints_->get(kDate);
  constraints_->limit(0);
  EXPECT_NE(constraints_->get(kObject), first);
}

}  // namespace
}  // namespace vitrine::test
