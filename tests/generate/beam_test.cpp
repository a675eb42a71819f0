// Beam search: the hypotheses of transformers (tools/goldens beam), and independence of the batch.
#include "generate/beam.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "generate/generator.h"
#include "generate/make_request.h"
#include "support/backward.h"
#include "support/data.h"
#include "support/pair.h"

namespace vitrine::test {
namespace {

using Texts = std::vector<Ids>;

Json goldens_of(const std::string& name) { return read_json_file(source_dir() + "/tests/goldens/beam.json").at(name); }

/// The request of a golden case, whose options are in the words of generation_config.json.
GenerateRequest request_of(const Json& golden) {
  RequestDefaults model;
  model.stop_ids = {golden["end"].get<std::int32_t>()};
  const Json& o = golden["options"];
  model.sampling.repeat_penalty = o["repetition_penalty"].get<double>();
  SearchDefaults& search = model.search;
  search.n_beams = o["num_beams"].get<int>();
  search.length_penalty = o["length_penalty"].get<double>();
  search.early_stop = o["early_stopping"] == "never" ? "never" : o["early_stopping"].get<bool>() ? "yes" : "no";
  search.min_new_tokens = o["min_new_tokens"].get<int>();
  search.no_repeat_ngram = o["no_repeat_ngram_size"].get<int>();
  search.max_new_tokens = o["max_new_tokens"].get<int>();
  if (o.contains("forced_bos_token_id")) search.forced_first = o["forced_bos_token_id"].get<std::int32_t>();
  if (o.contains("forced_eos_token_id")) search.forced_last = o["forced_eos_token_id"].get<std::int32_t>();
  if (o.contains("bad_words_ids")) search.bad_words = o["bad_words_ids"].get<Texts>();
  if (o.contains("suppress_tokens")) search.suppressed = o["suppress_tokens"].get<Ids>();
  const GenerateOptions options{.n_best = o["num_return_sequences"].get<int>(), .greedy = true};
  GenerateRequest request = make_request(model, golden["prompt"].get<Ids>(), options);
  request.source = golden["source"].get<Ids>();
  request.wants_score = true;
  return request;
}

Texts texts_of(const GenerateResult& result) {
  Texts texts;
  for (const TextHypothesis& hypothesis : result.hypotheses) texts.push_back(hypothesis.ids);
  return texts;
}

std::vector<double> scores_of(const GenerateResult& result) {
  std::vector<double> scores;
  for (const TextHypothesis& hypothesis : result.hypotheses) scores.push_back(hypothesis.score);
  return scores;
}

/// The score of each hypothesis is that of one pass over its ids, so beams have continued in the states of their own.
TEST(Beams, OfRecurrentDecodersHaveTheScoresOfTheirTexts) {
  for (const char* name : {"own_lstm", "own_additive", "own_rnn", "own_attention_to_gru"}) {
    const Checkpoint checkpoint = golden_checkpoint(std::string("pairs/") + name);
    ThreadPool pool(2);
    const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
    GenerateRequest request;
    request.source = {5, 6, 7, 8, 9, 10};
    request.prompt = {1};
    request.sampling.temperature = 0;
    request.wants_score = true;
    request.max_tokens = 9;
    request.beam.n_beams = request.beam.n_best = 4;
    const GenerateResult result = generate(context, {&request, 1})[0];
    ASSERT_EQ(result.hypotheses.size(), 4U) << name;
    std::set<Ids> texts;
    for (const TextHypothesis& hypothesis : result.hypotheses) {
      texts.insert(hypothesis.ids);
      Ids target = {1};
      target.insert(target.end(), hypothesis.ids.begin(), hypothesis.ids.end());
      const std::vector<float> logits = logits_of(*checkpoint.model, Pair{request.source, target});
      const std::size_t n = logits.size() / target.size();
      double sum = 0;
      for (std::size_t t = 0; t + 1 < target.size(); ++t) {
        const std::span<const float> row(&logits[t * n], n);
        double total = 0;
        for (const float x : row) total += std::exp(static_cast<double>(x));
        sum += static_cast<double>(row[static_cast<std::size_t>(target[t + 1])]) - std::log(total);
      }
      EXPECT_NEAR(hypothesis.score, sum / static_cast<double>(hypothesis.ids.size()), 1e-5) << name;
    }
    EXPECT_EQ(texts.size(), 4U) << name;
  }
}

class BeamGolden : public testing::TestWithParam<std::string> {
 protected:
  const Checkpoint checkpoint_ = golden_checkpoint("pairs/" + GetParam());
  const Json goldens_ = goldens_of(GetParam());
};

TEST_P(BeamGolden, HypothesesEqualTheReference) {
  ThreadPool pool(1);
  const GenerateContext context{checkpoint_.model.get(), &pool, &default_kernels()};
  for (const Json& golden : goldens_) {
    const GenerateRequest request = request_of(golden);
    const GenerateResult result = generate(context, {&request, 1})[0];
    EXPECT_EQ(texts_of(result), golden["texts"].get<Texts>()) << golden.dump();
    if (!golden.contains("scores")) continue;
    const std::vector<double> expected = golden["scores"];
    ASSERT_EQ(result.hypotheses.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(result.hypotheses[i].score, expected[i], 1e-5 * std::max(1.0, std::abs(expected[i])));
    }
    EXPECT_EQ(result.ids, result.hypotheses[0].ids);
  }
}

TEST_P(BeamGolden, ABatchThreadsAndTapsChangeNoBit) {
  std::vector<GenerateRequest> requests;
  for (const Json& golden : goldens_) requests.push_back(request_of(golden));
  ThreadPool one(1), two(2);
  const GenerateContext context{checkpoint_.model.get(), &one, &default_kernels()};
  std::vector<GenerateResult> alone;
  for (const GenerateRequest& request : requests) alone.push_back(generate(context, {&request, 1})[0]);
  Probe probe(*checkpoint_.model);
  for (Taps* taps : {static_cast<Taps*>(nullptr), static_cast<Taps*>(&probe)}) {
    GenerateContext batch = context;
    batch.pool = &two;
    batch.taps = taps;
    const std::vector<GenerateResult> together = generate(batch, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(texts_of(together[i]), texts_of(alone[i]));
      EXPECT_EQ(scores_of(together[i]), scores_of(alone[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BeamGolden, testing::Values("t5", "bart", "mbart", "marian_two", "m2m_100"),
                         [](const auto& param_info) { return param_info.param; });

/// With enough beams the search visits every text, and so finds the most probable one.
TEST(BeamSearch, FindsTheBestOfAllTexts) {
  constexpr int kVocab = 3, kLength = 4;
  const auto logprob = [](const Ids& text, std::int32_t next) {  // any function of the text
    double sum = 0, own = 0;
    for (std::int32_t id = 0; id < kVocab; ++id) {
      double x = 1.0 + id;
      for (const std::int32_t before : text) x = std::fmod(7.3 * x + 2.1 * before + 0.7, 5.0);
      sum += std::exp(x);
      if (id == next) own = x;
    }
    return own - std::log(sum);
  };
  std::vector<std::pair<double, Ids>> all;
  std::vector<std::pair<double, Ids>> open = {{0, {}}};
  for (int step = 0; step < kLength; ++step) {
    std::vector<std::pair<double, Ids>> next;
    for (const auto& [sum, text] : open) {
      for (std::int32_t id = 0; id < kVocab; ++id) {
        const double extended = sum + logprob(text, id);
        Ids longer = text;
        if (id != 0) longer.push_back(id);
        if (id == 0 || step + 1 == kLength) {
          all.emplace_back(extended / (step + 1), longer);
        } else {
          next.emplace_back(extended, longer);
        }
      }
    }
    open = std::move(next);
  }
  std::sort(all.rbegin(), all.rend());

  BeamSearch search({.n_beams = 81, .n_best = 5, .length_penalty = 1, .early_stop = EarlyStop::never}, kLength, {0});
  std::vector<Ids> texts = {{}};
  for (bool continues = true; continues;) {
    std::vector<Extension> extensions;
    const auto beams = search.beams();
    for (std::size_t beam = 0; beam < beams.size(); ++beam) {
      for (std::int32_t id = 0; id < kVocab; ++id) {
        extensions.push_back({static_cast<int>(beam), id, beams[beam].sum + logprob(texts[beam], id)});
      }
    }
    continues = search.step(extensions);
    std::vector<Ids> next;
    for (const Extension& beam : search.beams()) {
      next.push_back(texts[static_cast<std::size_t>(beam.beam)]);
      next.back().push_back(beam.id);
    }
    texts = next;
  }
  const std::vector<Hypothesis> found = search.hypotheses();
  ASSERT_EQ(found.size(), 5u);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ids, all[i].second);
    EXPECT_NEAR(found[i].score, all[i].first, 1e-12);
  }
}

/// A decoder without an encoder is searched in the same way; one beam takes the most likely token.
TEST(BeamSearch, ContinuesATextOfADecoderAlone) {
  const Checkpoint gemma = golden_checkpoint("gemma2");
  ThreadPool pool(2);
  const GenerateContext context{gemma.model.get(), &pool, &default_kernels()};
  GenerateRequest request;
  request.prompt = some_ids(*gemma.model, 9);
  request.max_tokens = 12;
  request.sampling.temperature = 0;
  request.wants_score = true;
  const GenerateResult greedy = generate(context, {&request, 1})[0];
  request.beam = {.n_beams = 4, .n_best = 4, .length_penalty = 0, .early_stop = EarlyStop::no};
  const GenerateResult beams = generate(context, {&request, 1})[0];
  EXPECT_EQ(beams.hypotheses.size(), 4u);
  EXPECT_GE(beams.score, greedy.score * 12 - 1e-9) << "greedy's score is divided by its length";
  for (std::size_t i = 1; i < 4; ++i) EXPECT_LE(beams.hypotheses[i].score, beams.hypotheses[i - 1].score);
}

TEST(BeamSearch, RefusesWhatItCannotDo) {
  const Checkpoint gemma = golden_checkpoint("gemma2");
  ThreadPool pool(1);
  const GenerateContext context{gemma.model.get(), &pool, &default_kernels()};
  const auto error = [&](auto change) {
    GenerateRequest request;
    request.prompt = {1, 2};
    request.sampling.temperature = 0;
    request.beam.n_beams = 3;
    change(request);
    try {
      generate(context, {&request, 1});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  using testing::HasSubstr;
  EXPECT_THAT(error([](GenerateRequest& r) { r.max_tokens = 2; }), "no error");
  EXPECT_THAT(error([](GenerateRequest& r) { r.beam.n_best = 4; }), HasSubstr("expected 1 to 3 hypotheses"));
  EXPECT_THAT(error([](GenerateRequest& r) { r.beam.n_beams = 0; }), HasSubstr("beams"));
  EXPECT_THAT(error([](GenerateRequest& r) { r.sampling.temperature = 1; }), HasSubstr("do not sample"));
  EXPECT_THAT(error([](GenerateRequest& r) { r.beam.length_penalty = NAN; }), HasSubstr("length_penalty"));
  EXPECT_THAT(error([](GenerateRequest& r) { r.n_logprobs = 1; }), HasSubstr("log-probabilities"));
  EXPECT_THAT(error([](GenerateRequest& r) { r.source = {1}; }), HasSubstr("no encoder"));
  EXPECT_THAT(error([](GenerateRequest& r) { r.rules.suppressed = {-1}; }), HasSubstr("suppress_tokens"));
  EXPECT_THAT(error([](GenerateRequest& r) { r.rules.bad_words = {{1 << 20}}; }), HasSubstr("bad_words_ids"));
}

}  // namespace
}  // namespace vitrine::test
