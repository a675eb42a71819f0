// Requests of every kind in one engine: each has the ids, the text and the log-probabilities that it has alone.
#include <deque>

#include "checkpoint/load.h"
#include "generate/engine.h"
#include "generate/prefix_cache.h"
#include "serve/served.h"

namespace vitrine::test {
namespace {

constexpr const char* kAgents =
    "{% for t in tools or [] %}T{{ t | tojson }}{% endfor %}{% for m in messages %}{{ m.role }}: "
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<c>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}</c>{% endfor %};{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% if think is defined and think %}<think>{% endif %}{% endif %}";

constexpr const char* kTools =
    R"("tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
       "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
       "required": ["city", "days"], "additionalProperties": false}}},
       {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}}}}])";

class MixedRequests : public RequestTest {
 protected:
  MixedRequests() : checkpoint_(load_checkpoint(source_dir() + "/models/default")) {
    ChatTemplates templates;
    templates.by_name["default"] = kAgents;
    chat_.emplace(templates, *tokenizer_, ChatVariables{}, "test");
    model_.model = checkpoint_.model.get();
    model_.can_inspect = true;
    model_.d_model = checkpoint_.model->config().d_model;
  }

  /// 28 requests: fields of completions, and of chats.
  static std::vector<std::pair<bool, std::string>> bodies() {
    const std::string sampled = R"("max_tokens": 40, "logprobs": 2)",
                      chatted = R"("temperature": 1, "max_tokens": 90, "logprobs": true, "top_logprobs": 1)";
    const std::string tools = std::string(kTools) + ", " + chatted;
    const std::string thinks = R"("chat_template_kwargs": {"think": true}, )";
    std::vector<std::pair<bool, std::string>> all;
    for (
        const char* more :
        {R"("seed": 1, "temperature": 1)", R"("seed": 2, "temperature": 0)",
         R"("seed": 3, "regex": "[0-9]{3}-[a-z]{2,9}")",
         R"("seed": 4, "json_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})",
         R"("seed": 5, "choice": ["one", "two", "three hundred"])",
         R"("seed": 6, "grammar": "root ::= root root | [ab]")",
         R"("seed": 7, "vitrine": {"set": ["blocks.1.hook_resid_post[2:]*=1.5"]})",
         R"("seed": 8, "vitrine": {"sites": ["blocks.0.hook_mlp_out"], "set": ["blocks.0.hook_mlp_out[3:]*=0"]})",
         R"("seed": 9, "dry_multiplier": 0.8, "repeat_penalty": 1.1)",
         R"("seed": 10, "xtc_probability": 1, "top_k": 50)", R"("seed": 11, "typical_p": 0.7, "top_n_sigma": 1.5)",
         R"("seed": 12, "banned_strings": ["e", " th"])", R"("seed": 13, "min_tokens": 15, "stop": ["."])",
         R"("seed": 14, "json_schema": {"const": {"all": "of this", "is": "forced"}}, "fast_forward": true)",
         R"("seed": 15, "n": 3, "logit_bias": {"5": 4})",
         R"("seed": 25, "dynatemp_range": 0.5, "dynatemp_exponent": 0.7, "min_keep": 3, "top_p": 0.1)",
         R"("seed": 26, "samplers": ["top_k", "infill"], "top_k": 40, "prompt_logprobs": 2)",
         R"("seed": 27, "top_k": 3, "repetition_detection": {"max_pattern_size": 2, "min_count": 2}, "n_indent": 1)",
         R"("seed": 28, "post_sampling_probs": true, "top_k": 8)"}) {
      all.emplace_back(false, sampled + ", " + more);
    }
    for (const std::string& more :
         {tools + R"(, "seed": 16, "tool_choice": "required")", tools + R"(, "seed": 17)",
          tools + R"(, "seed": 18, "tool_choice": {"type": "function", "function": {"name": "get_weather"}})",
          thinks + chatted + R"(, "seed": 19, "thinking_budget": 5)",
          thinks + tools + R"(, "seed": 20, "thinking_budget": 7, "tool_choice": "required")",
          thinks + chatted + R"(, "seed": 21, "thinking_budget": 4, "regex": "[0-9]{2}")",
          thinks + chatted + R"(, "seed": 22, "thinking_budget": 0, "response_format": {"type": "json_object"})",
          tools + R"(, "seed": 23, "tool_choice": "required", "fast_forward": true)", chatted + R"(, "seed": 24)"}) {
      all.emplace_back(true, more);
    }
    return all;
  }

  /// The results of all sequences of the requests, at most `n_together` of which run at a time.
  std::vector<GenerateResult> run(std::span<const std::pair<bool, std::string>> bodies, std::size_t n_together,
                                  int n_threads, PrefixCache* prefixes = nullptr) const {
    ThreadPool pool(n_threads);
    GenerateContext context{checkpoint_.model.get(), &pool, &default_kernels(), tokenizer_.get()};
    context.prefixes = prefixes;
    std::deque<GenerateRequest> waiting;
    for (const auto& [is_chat, fields] : bodies) {
      const CompletionRequest request = is_chat ? chat(fields) : completion(fields);
      for (std::size_t i = 0; i < request.n_sequences(); ++i) {
        waiting.push_back(request.sequence(i, model_.defaults));
      }
    }
    std::vector<GenerateResult> results(waiting.size());
    Engine engine(context);
    for (std::size_t n_running = 0; n_running > 0 || !waiting.empty();) {
      for (; n_running < n_together && !waiting.empty(); ++n_running, waiting.pop_front()) {
        engine.add(std::move(waiting.front()));
      }
      for (SequenceStep& step : engine.step(16).sequences) {
        if (step.error) std::rethrow_exception(step.error);
        if (step.result) results[step.id] = std::move(*step.result), --n_running;
      }
    }
    return results;
  }

  static void expect_equal(const GenerateResult& actual, const GenerateResult& expected) {
    EXPECT_EQ(actual.ids, expected.ids);
    EXPECT_EQ(actual.text, expected.text);
    EXPECT_EQ(actual.finish_reason, expected.finish_reason);
    ASSERT_EQ(actual.logprobs.size(), expected.logprobs.size());
    ASSERT_EQ(actual.prompt_logprobs.size(), expected.prompt_logprobs.size());
    for (std::size_t i = 0; i < expected.prompt_logprobs.size(); ++i) {
      EXPECT_EQ(actual.prompt_logprobs[i].logprob, expected.prompt_logprobs[i].logprob);
      EXPECT_EQ(actual.prompt_logprobs[i].rank, expected.prompt_logprobs[i].rank);
    }
    for (std::size_t i = 0; i < expected.logprobs.size(); ++i) {
      EXPECT_EQ(actual.logprobs[i].logprob, expected.logprobs[i].logprob);
      EXPECT_EQ(actual.logprobs[i].removed, expected.logprobs[i].removed);
    }
  }

  const Checkpoint checkpoint_;
};

TEST_F(MixedRequests, HaveTheBitsTheyHaveAlone) {
  const auto all = bodies();
  ASSERT_EQ(all.size(), 28U);
  std::vector<GenerateResult> alone;
  for (const auto& body : all) {
    for (GenerateResult& own : run({&body, 1}, 1, 1)) alone.push_back(std::move(own));
  }
  ASSERT_EQ(alone.size(), 30U);
  for (const GenerateResult& own : alone) EXPECT_EQ(own.logprobs.size(), own.ids.size());
  for (const std::size_t n_together : {5U, 32U}) {
    for (const int n_threads : {1, 2}) {
      PrefixCache prefixes;
      const std::vector<GenerateResult> together = run(all, n_together, n_threads, &prefixes);
      ASSERT_EQ(together.size(), alone.size());
      for (std::size_t i = 0; i < alone.size(); ++i) {
        SCOPED_TRACE(fmt::format("sequence {} of {}, {} threads", i, n_together, n_threads));
        expect_equal(together[i], alone[i]);
      }
    }
  }
}

/// The budget is spent where the mark that ends the reasoning may have begun: only the rest of it is written.
TEST_F(MixedRequests, AMarkThatHasBegunIsNotBegunAgain) {
  const std::int32_t id = tokenizer_->encode("<", SpecialTokens::none).back();
  const std::string fields = fmt::format(
      R"("chat_template_kwargs": {{"think": true}}, "thinking_budget": 3, "max_tokens": 12, "logit_bias": {{"{}": 100}})",
      id);
  const std::pair<bool, std::string> body{true, fields};
  const GenerateResult result = run({&body, 1}, 1, 1).front();
  EXPECT_TRUE(result.text.starts_with("<<</think>")) << result.text;
}

}  // namespace
}  // namespace vitrine::test
