// Fields of requests under the names of other servers: what they do, what changes nothing, and what nobody knows.
#include "serve/foreign_fields.h"

#include "serve/completion_request.h"
#include "serve/served.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

class ForeignFields : public RequestTest {};

/// A field with a name that nobody has is an error or has no effect, as the server wants it; one that would change the
/// answer is an error always.
TEST_F(ForeignFields, UnknownFieldsAreIgnoredIfTheServerIgnoresThem) {
  const std::string messages =
      R"([{"role": "user", "contentt": 1, "content": [{"type": "text", "text": "a", "x": 1}]}])";
  expect_refusal([&] { chat("", messages); }, 400, "messages[0].content[0].x", {"unknown field"});
  model_.unknown_fields = UnknownFields::ignore;
  const Ids ids = ids_of("user: a\nassistant:", SpecialTokens::none);
  EXPECT_EQ(chat(R"("temprature": 3, "stream": true, "stream_options": {"y": 1}, "vitrine": {"z": 1},
                     "response_format": {"type": "text", "q": 1})",
                 messages)
                .prompts[0]
                .ids,
            ids);
  EXPECT_EQ(completion(R"("temprature": 3)").sequence(0, model_.defaults).sampling.temperature, 1);
  expect_completion_error(R"("mirostat": 2)", "mirostat", "sampler");
  expect_completion_error(R"("temperature": "hot")", "temperature");
  expect_refusal([&] { chat("", R"([{"role": "user", "content": "x", "tool_calls": [{}]}])"); }, 400,
                 "messages[0].tool_calls[0].function");
}

/// llama-server's list of the steps to take.
TEST_F(ForeignFields, StepsOfTheSamplerThatAreNotNamedAreOff) {
  const std::string all = R"("top_k": 5, "top_p": 0.5, "min_p": 0.1, "typical_p": 0.9, "repeat_penalty": 1.5,
      "dry_multiplier": 1, "xtc_probability": 0.5, "top_n_sigma": 2, "temperature": 0.5, "presence_penalty": 1, )";
  const auto sampling = [&](const std::string& samplers) {
    return completion(all + R"("samplers": )" + samplers).sequence(0, model_.defaults).sampling;
  };
  const std::string every =
      R"(["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"])";
  for (const std::string& samplers : {every, std::string(R"("edskypmxt")"), std::string("[]"), std::string("null")}) {
    const SamplingConfig own = sampling(samplers);
    EXPECT_EQ(own.top_k, 5);
    EXPECT_EQ(own.repeat_penalty, 1.5);
    EXPECT_EQ(own.xtc_probability, 0.5);
    EXPECT_EQ(own.temperature, 0.5);
    EXPECT_NE(own.dry_breakers, nullptr);
  }
  SamplingConfig own = sampling(R"(["top-k", "temperature"])");
  EXPECT_EQ(own.top_k, 5);
  EXPECT_EQ(own.temperature, 0.5);
  EXPECT_EQ(own.top_p, 1);
  EXPECT_EQ(own.min_p, 0);
  EXPECT_EQ(own.typical_p, 1);
  EXPECT_EQ(own.top_n_sigma, 0);
  EXPECT_EQ(own.xtc_probability, 0);
  EXPECT_FALSE(own.changes_logits());
  EXPECT_EQ(own.dry_breakers, nullptr);
  own = sampling(R"("p")");
  EXPECT_EQ(own.top_p, 0.5);
  EXPECT_EQ(own.temperature, 1);
  expect_completion_error(R"("samplers": ["top_p", "top_k"])", "samplers", "top_k, typ_p, top_p");
  expect_completion_error(R"("samplers": ["top_k", "top_k"])", "samplers", "order");
  expect_completion_error(R"("samplers": ["top_kk"])", "samplers", "did you mean top_k?");
  expect_completion_error(R"("samplers": "kq")", "samplers", "'q'");
  expect_completion_error(R"("samplers": 5)", "samplers");
}

TEST_F(ForeignFields, OnlyAllowedTokensOccur) {
  const Ids others = completion(R"("allowed_token_ids": [7, 5, 7])").sequence(0, model_.defaults).rules.suppressed;
  EXPECT_EQ(std::ssize(others), model_.vocab_size - 2);
  EXPECT_THAT(others, testing::Not(testing::AnyOf(testing::Contains(5), testing::Contains(7))));
  EXPECT_TRUE(completion(R"("allowed_token_ids": [])").sequence(0, model_.defaults).rules.suppressed.empty());
  expect_completion_error(R"("allowed_token_ids": [4096])", "allowed_token_ids", "4096");
  expect_completion_error(R"("allowed_token_ids": 5)", "allowed_token_ids");
}

/// Fields of other servers with the values that their clients send by default.
TEST_F(ForeignFields, FieldsOfOtherServersThatChangeNothing) {
  const GenerateRequest plain = completion("").sequence(0, model_.defaults);
  const std::string fields =
      R"("user": "u", "verbosity": "low", "prediction": {"type": "content", "content": "x"}, "cache_prompt": false,
         "id_slot": -1, "n_keep": 0, "timings_per_token": true, "return_progress": true, "samplers": [],
         "dry_multiplier": 0.0, "dry_base": 1.75, "dry_sequence_breakers": ["\n"], "xtc_probability": 0,
         "xtc_threshold": 0.1, "mirostat": 0, "mirostat_tau": 5, "top_n_sigma": -1.0, "dynatemp_range": 0,
         "repeat_last_n": -1, "repeat_penalty": 1.0, "typical_p": 1, "min_keep": 0, "lora": [], "grammar": "",
         "n_probs": 0, "ignore_eos": false, "post_sampling_probs": false, "t_max_predict_ms": -1,
         "use_beam_search": false, "length_penalty": 1.0, "skip_special_tokens": true, "allowed_token_ids": null,
         "spaces_between_special_tokens": true, "include_stop_str_in_output": false, "min_tokens": 0, "bad_words": [],
         "priority": 3, "request_id": "r", "structured_outputs": null, "guided_json": null, "vllm_xargs": {},
         "n_cmpl": 1, "seed": -1, "stop": "", "model": "", "return_token_ids": false, "speculative.n_max": 16)";
  for (const auto& request : {completion(fields), completion(fields + R"(, "max_tokens": 16.0)")}) {
    const GenerateRequest sequence = request.sequence(0, model_.defaults);
    EXPECT_EQ(sequence.seed, plain.seed);
    EXPECT_EQ(sequence.max_tokens, plain.max_tokens);
    EXPECT_EQ(sequence.stop_strings, plain.stop_strings);
    EXPECT_EQ(sequence.stop_ids, plain.stop_ids);
    EXPECT_EQ(sequence.rules, plain.rules);
    EXPECT_FALSE(sequence.shows_stop || sequence.shows_special || sequence.wants_logprobs);
  }
  EXPECT_NO_THROW(
      chat(fields + R"(, "include_reasoning": true, "reasoning_format": "auto", "tools": null, "echo": false,
      "logprobs": false, "top_logprobs": 0, "add_special_tokens": false, "return_prompt_text": false, "prompt": "", "documents": null, "chat_template": null)"));
  for (const ForeignField& field : foreign_fields()) {
    const std::string name = Json(field.name).dump();
    if ((field.in & kOfCompletion) == 0) continue;
    for (const Json& off : field.off) EXPECT_NO_THROW(completion(name + ": " + off.dump())) << name;
    if (field.refusal.empty()) {
      EXPECT_NO_THROW(completion(name + R"(: {"a": [1]})")) << name;
    } else {
      expect_completion_error(name + R"(: {"a": [1]})", std::string(field.name), std::string(field.refusal));
    }
  }
}

TEST_F(ForeignFields, NamesOfOtherServers) {
  const auto sequence = [&](const std::string& fields) { return completion(fields).sequence(0, model_.defaults); };
  EXPECT_EQ(sequence(R"("max_completion_tokens": 2)").max_tokens, 2);
  EXPECT_EQ(sequence(R"("max_tokens": 2, "max_completion_tokens": 3)").max_tokens, 3) << "the newer name";
  EXPECT_EQ(sequence(R"("n_predict": 4, "max_tokens": 2)").max_tokens, 4);
  EXPECT_EQ(sequence(R"("max_tokens": -1)").max_tokens, 512) << "up to the end of the context";
  EXPECT_EQ(sequence(R"("max_tokens": 3.0)").max_tokens, 3);
  EXPECT_EQ(sequence(R"("repeat_penalty": 1.5, "repeat_last_n": 64)").sampling.repeat_penalty, 1.5);
  EXPECT_EQ(sequence(R"("repeat_penalty": 1.5, "repeat_last_n": 64)").sampling.repeat_last_n, 64);
  EXPECT_EQ(sequence(R"("min_tokens": 3)").rules.min_tokens, 3);
  EXPECT_EQ(sequence(R"("top_p": 0)").sampling.top_p, 0);
  EXPECT_TRUE(sequence(R"("stop": ["", ""])").stop_strings.empty());
  EXPECT_EQ(completion(R"("n_cmpl": 3)").n, 3);
  EXPECT_EQ(completion(R"("n_probs": 2)").given.n_logprobs, 2);
  EXPECT_TRUE(completion(R"("n_probs": 2)").reports_logprobs);
  EXPECT_TRUE(sequence(R"("include_stop_str_in_output": true)").shows_stop);
  EXPECT_TRUE(sequence(R"("skip_special_tokens": false)").shows_special);
  EXPECT_EQ(sequence(R"("cache_salt": "s")").owner, "s");
  EXPECT_EQ(completion(R"("sse_ping_interval": 9)").silence, std::chrono::seconds(9));
  EXPECT_FALSE(completion(R"("sse_ping_interval": -1)").silence);
  const GenerateRequest biased = sequence(R"("logit_bias": [[5, 1.5], [6, false], ["a", -2]])");
  const auto of_a = ids_of("a", SpecialTokens::none);
  ASSERT_EQ(of_a.size(), 1U);
  EXPECT_THAT(biased.sampling.logit_bias, testing::ElementsAre(std::pair(5, 1.5), std::pair(of_a[0], -2.0)));
  EXPECT_EQ(biased.rules.suppressed, Ids{6});
  EXPECT_THAT(sequence(R"("bad_words": ["cat"])").rules.bad_words,
              testing::Contains(ids_of("cat", SpecialTokens::none)));
}

/// What the sampler reads of texts is made once.
TEST_F(ForeignFields, LimitsAndStepsOfOtherServers) {
  const auto sequence = [&](const std::string& fields) { return completion(fields).sequence(0, model_.defaults); };
  EXPECT_EQ(sequence(R"("n_indent": 4, "t_max_predict_ms": 250, "t_max_prompt_ms": 500)").limits.n_indent, 4);
  EXPECT_EQ(sequence(R"("t_max_predict_ms": 250)").limits.t_max_predict_ms, 250);
  const SamplingConfig steps = sequence(R"("dynatemp_range": 0.5, "dynatemp_exponent": 2, "min_keep": 3)").sampling;
  EXPECT_EQ(steps.dynatemp_range, 0.5);
  EXPECT_EQ(steps.dynatemp_exponent, 2);
  EXPECT_EQ(steps.min_keep, 3);
  EXPECT_EQ(steps.infill, nullptr);
  EXPECT_NE(sequence(R"("samplers": ["top_k", "top_p", "infill"])").sampling.infill, nullptr) << "as llama.vim asks";
  EXPECT_EQ(sequence(R"("samplers": ["top_k", "top_p"])").sampling.infill, nullptr);
  const auto repetition = sequence(R"("repetition_detection":
      {"max_pattern_size": 5, "min_pattern_size": 2, "min_count": 3})")
                              .limits.repetition;
  ASSERT_TRUE(repetition);
  EXPECT_EQ(repetition->max_size, 5);
  EXPECT_EQ(repetition->min_size, 2);
  EXPECT_EQ(repetition->min_count, 3);
  EXPECT_FALSE(sequence(R"("repetition_detection": {"max_pattern_size": 0})").limits.repetition);
  EXPECT_EQ(sequence(R"("stop": )" + Json(std::vector<std::string>(600, "x")).dump()).stop_strings.size(), 600U);
}

TEST_F(ForeignFields, ASearchWithBeams) {
  const CompletionRequest request = completion(
      R"("use_beam_search": true, "n": 3, "temperature": 0.7, "length_penalty": 0.5, "early_stopping": true)");
  EXPECT_EQ(request.n_sequences(), 1U);
  const GenerateRequest sequence = request.sequence(0, model_.defaults);
  EXPECT_EQ(sequence.beam.n_beams, 3);
  EXPECT_EQ(sequence.beam.n_best, 3);
  EXPECT_EQ(sequence.beam.length_penalty, 0.5);
  EXPECT_EQ(sequence.beam.early_stop, EarlyStop::yes);
  EXPECT_EQ(sequence.sampling.temperature, 0);
  EXPECT_EQ(completion(R"("n": 3, "length_penalty": 0.5)").sequence(0, model_.defaults).beam.n_beams, 1);
  expect_completion_error(R"("use_beam_search": true, "stream": true)", "use_beam_search", "stream");
  expect_completion_error(R"("use_beam_search": true, "n": 2, "best_of": 3)", "best_of", "2");
  expect_completion_error(R"("use_beam_search": true, "logprobs": 2)", "use_beam_search", "log-probabilities");
}

TEST_F(ForeignFields, LogprobsThatOtherServersReport) {
  const auto sequence = [&](const std::string& fields) { return completion(fields).sequence(0, model_.defaults); };
  GenerateRequest own = sequence(R"("prompt_logprobs": 3)");
  EXPECT_TRUE(own.wants_prompt_logprobs);
  EXPECT_EQ(own.n_prompt_logprobs, 3);
  EXPECT_FALSE(own.wants_logprobs);
  own = sequence(R"("logprob_token_ids": [5, 2])");
  EXPECT_EQ(own.logprob_ids, (Ids{5, 2}));
  EXPECT_TRUE(own.wants_logprobs);
  own = sequence(R"("n_probs": 2, "post_sampling_probs": true)");
  EXPECT_TRUE(own.wants_sampled_logprobs && own.wants_logprobs);
  EXPECT_FALSE(sequence(R"("logprobs": 2)").wants_sampled_logprobs);
  for (const char* more : {R"("logprob_token_ids": [5])", R"("best_of": 2)", R"("echo": true)"}) {
    expect_completion_error(R"("n_probs": 2, "post_sampling_probs": true, )" + std::string(more),
                            "post_sampling_probs");
  }
}

TEST_F(ForeignFields, SequencesShareTheTextsOfTheSampler) {
  const CompletionRequest request = completion(R"("n": 2, "dry_multiplier": 1, "banned_strings": ["cat"])");
  const GenerateRequest first = request.sequence(0, model_.defaults), second = request.sequence(1, model_.defaults);
  ASSERT_NE(first.banned, nullptr);
  ASSERT_NE(first.sampling.dry_breakers, nullptr);
  EXPECT_EQ(first.banned, second.banned);
  EXPECT_EQ(first.sampling.dry_breakers, second.sampling.dry_breakers);
}

}  // namespace
}  // namespace vitrine::test
