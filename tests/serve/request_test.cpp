// Requests for texts: every field, its default, its range, and what is refused.
#include "serve/completion_request.h"

#include "base/temp_folder.h"
#include "serve/served.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

class Requests : public RequestTest {};

TEST_F(Requests, DefaultsOfACompletion) {
  const CompletionRequest request = completion("");
  EXPECT_EQ(request.model, "default");
  ASSERT_EQ(request.prompts.size(), 1U);
  EXPECT_EQ(request.prompts[0].ids, ids_of("Once upon"));
  EXPECT_EQ(request.prompts[0].text, "Once upon");
  const GenerateRequest sequence = request.sequence(0, model_.defaults);
  EXPECT_EQ(sequence.max_tokens, 16);
  EXPECT_EQ(sequence.seed, 99U);
  EXPECT_EQ(sequence.sequence, 0U);
  EXPECT_EQ(sequence.sampling.temperature, 1);
  EXPECT_EQ(sequence.sampling.top_k, 0);
  EXPECT_EQ(sequence.sampling.top_p, 1);
  EXPECT_EQ(sequence.sampling.min_p, 0);
  EXPECT_EQ(sequence.sampling.repeat_penalty, 1);
  EXPECT_EQ(sequence.stop_ids, Ids{0});
  EXPECT_FALSE(sequence.wants_logprobs || sequence.wants_prompt_logprobs || request.streams || request.echoes);
}

TEST_F(Requests, DefaultsOfTheCheckpoint) {
  model_.defaults.sampling.temperature = 0.5;
  model_.defaults.sampling.top_k = 7;
  model_.defaults.search.max_new_tokens = 33;
  GenerateRequest sequence = completion("").sequence(0, model_.defaults);
  EXPECT_EQ(sequence.sampling.temperature, 0.5);
  EXPECT_EQ(sequence.sampling.top_k, 7);
  EXPECT_EQ(sequence.max_tokens, 33);
  sequence = completion(R"("temperature": 2, "max_tokens": 4)").sequence(0, model_.defaults);
  EXPECT_EQ(sequence.sampling.temperature, 2);
  EXPECT_EQ(sequence.sampling.top_k, 7);
  EXPECT_EQ(sequence.max_tokens, 4);
  model_.defaults.sampling.greedy = true;
  EXPECT_EQ(completion("").sequence(0, model_.defaults).sampling.temperature, 0);
}

TEST_F(Requests, EveryFieldOfSampling) {
  const CompletionRequest request = completion(
      R"("model": "alias", "temperature": 0.25, "top_p": 0.5, "top_k": 9, "min_p": 0.125, "repetition_penalty": 1.5,
         "frequency_penalty": -2, "presence_penalty": 1.25, "logit_bias": {"12": -100, "3": 2.5}, "seed": -2,
         "stop": ["a", "bc"], "stop_token_ids": [5, 6], "max_tokens": 3, "n": 2, "best_of": 4, "logprobs": 20,
         "echo": true, "user": "u", "metadata": {"a": 1})");
  EXPECT_EQ(request.model, "alias");
  const GenerateRequest sequence = request.sequence(3, model_.defaults);
  const SamplingConfig& s = sequence.sampling;
  EXPECT_EQ(s.temperature, 0.25);
  EXPECT_EQ(s.top_p, 0.5);
  EXPECT_EQ(s.top_k, 9);
  EXPECT_EQ(s.min_p, 0.125);
  EXPECT_EQ(s.repeat_penalty, 1.5);
  EXPECT_EQ(s.frequency_penalty, -2);
  EXPECT_EQ(s.presence_penalty, 1.25);
  EXPECT_THAT(s.logit_bias, testing::UnorderedElementsAre(std::pair(12, -100.0), std::pair(3, 2.5)));
  EXPECT_EQ(sequence.seed, ~std::uint64_t{1});
  EXPECT_EQ(sequence.sequence, 3U);
  EXPECT_EQ(sequence.stop_strings, (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(sequence.stop_ids, (Ids{0, 5, 6}));
  EXPECT_EQ(sequence.max_tokens, 3);
  EXPECT_EQ(sequence.n_logprobs, 20);
  EXPECT_TRUE(sequence.wants_logprobs && sequence.wants_prompt_logprobs);
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.n_sequences(), 4U);
  EXPECT_TRUE(request.echoes);
}

TEST_F(Requests, NullMeansAbsent) {
  const CompletionRequest request = completion(
      R"("temperature": null, "stop": null, "logprobs": null, "n": null, "suffix": null, "stream_options": null,
         "logit_bias": null, "seed": null, "max_tokens": null, "echo": null, "vitrine": null, "model": null)");
  EXPECT_EQ(request.sequence(0, model_.defaults).max_tokens, 16);
  EXPECT_EQ(request.sequence(0, model_.defaults).seed, 99U);
  EXPECT_FALSE(request.reports_ids || request.reports_logprobs);
}

TEST_F(Requests, StopsAndEndsOfTexts) {
  EXPECT_EQ(completion(R"("stop": "x")").sequence(0, model_.defaults).stop_strings, std::vector<std::string>{"x"});
  EXPECT_TRUE(completion(R"("stop": [])").sequence(0, model_.defaults).stop_strings.empty());
  EXPECT_EQ(completion(R"("ignore_eos": true)").sequence(0, model_.defaults).stop_ids, Ids{});
  EXPECT_EQ(completion(R"("ignore_eos": true, "stop_token_ids": [4])").sequence(0, model_.defaults).stop_ids, Ids{4});
  EXPECT_EQ(completion(R"("top_k": -1)").sequence(0, model_.defaults).sampling.top_k, 0);
  EXPECT_EQ(chat("").sequence(0, model_.defaults).stop_ids, (Ids{0, 7}));
}

TEST_F(Requests, PromptsAreTextsOrIdsOrBatchesOfBoth) {
  const auto prompts = [&](const std::string& prompt) { return completion("", prompt).prompts; };
  EXPECT_EQ(prompts("[5, 6]")[0].ids, (Ids{5, 6}));
  EXPECT_EQ(prompts("[5.0, 6]")[0].ids, (Ids{5, 6}));
  EXPECT_FALSE(prompts("[5, 6]")[0].text);
  const auto mixed = prompts(R"(["a cat", [1, 2, 3], "b"])");
  ASSERT_EQ(mixed.size(), 3U);
  EXPECT_EQ(mixed[0].ids, ids_of("a cat"));
  EXPECT_EQ(mixed[1].ids, (Ids{1, 2, 3}));
  EXPECT_EQ(mixed[2].text, "b");
  EXPECT_EQ(prompts(R"("")")[0].ids, Ids{*tokenizer_->bos()});
  const std::string special = tokenizer_->piece(0);
  EXPECT_EQ(
      parse_completion(model_, R"({"add_special_tokens": false, "prompt": )" + Json(special + "a").dump() + "}", 0)
          .prompts[0]
          .ids,
      ids_of(special + "a", SpecialTokens::written));
  expect_refusal([&] { completion("", "[]"); }, 400, "prompt", {"at least one token"});
  expect_refusal([&] { completion("", R"([[1], []])"); }, 400, "prompt[1]");
  expect_refusal([&] { completion("", R"([[1], 5])"); }, 400, "prompt[1]", {"a list of ids"});
  Ids joined = {1, 2};
  const Ids a_cat = ids_of("a cat", SpecialTokens::written);
  joined.insert(joined.end(), a_cat.begin(), a_cat.end());
  joined.push_back(3);
  EXPECT_EQ(prompts(R"([1, 2, "a cat", 3])")[0].ids, joined);
  EXPECT_EQ(prompts(R"([[1, 2, "a cat", 3], "b"])")[0].ids, joined);
  joined = ids_of("a cat");
  joined.push_back(3);
  EXPECT_EQ(prompts(R"(["a cat", 3])")[0].ids, joined);
  expect_refusal([&] { completion("", R"([1, "a", [2]])"); }, 400, "prompt[0]", {"ids"});
  expect_refusal([&] { completion("", "[1.5]"); }, 400, "prompt", {"1.5"});
  expect_refusal([&] { completion("", "[-1]"); }, 400, "prompt", {"-1"});
  expect_refusal([&] { completion("", "[4096]"); }, 400, "prompt", {"from 0 to 4095, got 4096"});
  expect_refusal([&] { completion("", "[18446744073709551615]"); }, 400, "prompt");
  model_.vocab_size = 50;
  expect_refusal([&] { completion("", R"("zebra")"); }, 400, "prompt", {"the model's vocabulary of 50"});
  model_.vocab_size = 4096;
  expect_refusal([&] { completion("", "7"); }, 400, "prompt");
  expect_refusal([&] { completion("", "{}"); }, 400, "prompt");
  expect_refusal([&] { parse_completion(model_, "{}", 0); }, 400, "prompt");
  expect_refusal([&] { completion(R"("n": 32)", Json(Json::array_t(100, "a")).dump()); }, 400, "prompt", {"2048"});
}

TEST_F(Requests, PromptsThatExceedTheContextNameBothNumbers) {
  const std::string fits = Json(Ids(512, 1)).dump(), exceeds = Json(Ids(513, 1)).dump();
  EXPECT_EQ(completion("", fits).prompts[0].ids.size(), 512U);
  try {
    completion("", exceeds);
    ADD_FAILURE();
  } catch (const RequestError& e) {
    EXPECT_EQ(e.to_json()["error"]["code"], "context_length_exceeded");
    EXPECT_THAT(std::string(e.what()), testing::HasSubstr("513 tokens, the model's context is 512"));
  }
}

TEST_F(Requests, ValuesOutsideTheirRangesAreNamed) {
  expect_completion_error(R"("temperature": -0.5)", "temperature", "-0.5");
  expect_completion_error(R"("temperature": "hot")", "temperature", "a number, got string");
  expect_completion_error(R"("top_p": -0.5)", "top_p", "in [0, 1]");
  expect_completion_error(R"("top_p": 1.5)", "top_p");
  expect_completion_error(R"("min_p": 2)", "min_p");
  expect_completion_error(R"("top_k": -2)", "top_k");
  expect_completion_error(R"("top_k": 2.5)", "top_k", "2.5");
  expect_completion_error(R"("repetition_penalty": 0)", "repetition_penalty");
  expect_completion_error(R"("frequency_penalty": 2.5)", "frequency_penalty");
  expect_completion_error(R"("presence_penalty": -3)", "presence_penalty");
  expect_completion_error(R"("logit_bias": {"4096": 1})", "logit_bias", "4096");
  expect_completion_error(R"("logit_bias": {"": 1})", "logit_bias");
  expect_completion_error(R"("logit_bias": [5])", "logit_bias");
  expect_completion_error(R"("logit_bias": [[1.5, 1]])", "logit_bias");
  expect_completion_error(R"("logit_bias": [[4096, false]])", "logit_bias", "4096");
  expect_completion_error(R"("logit_bias": {"1": 101})", "logit_bias.1", "101");
  expect_completion_error(R"("logit_bias": [1])", "logit_bias");
  expect_completion_error(R"("n": 0)", "n");
  expect_completion_error(R"("n": 129)", "n", "from 1 to 128, got 129");
  expect_completion_error(R"("n": 3, "best_of": 2)", "best_of");
  expect_completion_error(R"("best_of": 2, "stream": true)", "best_of");
  expect_completion_error(R"("logprobs": 21)", "logprobs");
  expect_completion_error(R"("logprobs": true)", "logprobs", "true");
  expect_completion_error(R"("max_tokens": -2)", "max_tokens", "from -1 to");
  expect_completion_error(R"("max_tokens": 3.5)", "max_tokens", "3.5");
  expect_completion_error(R"("max_tokens": 1e300)", "max_tokens");
  expect_completion_error(R"("n_predict": -2)", "n_predict");
  expect_completion_error(R"("min_tokens": -1)", "min_tokens");
  expect_completion_error(R"("repeat_last_n": -2)", "repeat_last_n");
  expect_completion_error(R"("truncate_prompt_tokens": -2)", "truncate_prompt_tokens");
  expect_completion_error(R"("truncation_side": "middle")", "truncation_side");
  expect_completion_error(R"("bad_words": [" "])", "bad_words");
  expect_completion_error(R"("sse_ping_interval": -2)", "sse_ping_interval");
  expect_completion_error(R"("seed": 18446744073709551615)", "seed");
  expect_completion_error(R"("seed": 1.5)", "seed");
  expect_completion_error(R"("stop": 5)", "stop");
  expect_completion_error(R"("stop": )" + Json(std::vector<std::string>(1025, "x")).dump(), "stop", "1025");
  expect_completion_error(R"("stop_token_ids": [4096])", "stop_token_ids");
  expect_completion_error(R"("stream": 1)", "stream", "true or false, got 1");
  expect_completion_error(R"("stream_options": {"include_usage": true})", "stream_options");
  expect_completion_error(R"("stream": true, "stream_options": {"include_use": true})", "stream_options.include_use",
                          "did you mean include_usage?");
}

TEST_F(Requests, UnknownFieldsAreNamedWithTheNearestOne) {
  expect_completion_error(R"("temprature": 1)", "temprature", "unknown field; did you mean temperature?");
  expect_completion_error(R"("guided_jsn": {})", "guided_jsn", "unknown field");
  expect_completion_error(R"("guided_jason": {})", "guided_jason", "did you mean guided_json?");
  expect_chat_error(R"("top_logprob": 1)", "top_logprob", "did you mean top_logprobs?");
  expect_completion_error(R"("vitrine": {"site": []})", "vitrine.site", "did you mean sites?");
}

TEST_F(Requests, WhatIsNotSupportedIsNamed) {
  expect_completion_error(R"("suffix": "end")", "suffix", "no tokens");
  expect_completion_error(R"("mirostat": 2)", "mirostat", "sampler");
  expect_completion_error(R"("dynatemp_range": -0.8)", "dynatemp_range", ">= 0");
  expect_completion_error(R"("xtc_probability": 2)", "xtc_probability");
  expect_completion_error(R"("prompt_logprobs": 1, "stream": true)", "prompt_logprobs", "stream");
  expect_completion_error(R"("prompt_logprobs": 21)", "prompt_logprobs", "20");
  expect_completion_error(R"("logprob_token_ids": [1, 4096])", "logprob_token_ids", "4096");
  expect_completion_error(R"("repetition_detection": {"max_pattern_size": 5})", "repetition_detection", "min_count");
  expect_completion_error(R"("repetition_detection": {"max_size": 5})", "repetition_detection.max_size", "unknown");
  expect_completion_error(R"("messages": [{"role": "user", "content": "Hi"}])", "messages", "/v1/chat/completions");
  expect_chat_error(R"("prompt": "Hi")", "prompt", "/v1/completions");
  expect_chat_error(R"("chat_template": "x")", "chat_template", "--template");
  expect_chat_error(R"("tool_choice": "required")", "tool_choice");
  expect_chat_error(R"("functions": [{}])", "functions[0].name");
  expect_chat_error(R"("modalities": ["audio"])", "modalities");
  EXPECT_NO_THROW(chat(R"("tools": [], "tool_choice": "none", "response_format": {"type": "text"},
                           "modalities": ["text"], "store": false, "parallel_tool_calls": true)"));
}

TEST_F(Requests, PromptsAreCut) {
  const auto ids = [&](const std::string& fields) { return completion(fields, "[1, 2, 3, 4, 5]").prompts[0].ids; };
  EXPECT_EQ(ids(R"("truncate_prompt_tokens": 2)"), (Ids{4, 5}));
  EXPECT_EQ(ids(R"("truncate_prompt_tokens": 2, "truncation_side": "right")"), (Ids{1, 2}));
  EXPECT_EQ(ids(R"("truncate_prompt_tokens": 9)"), (Ids{1, 2, 3, 4, 5}));
  const std::string exceeds = Json(Ids(600, 1)).dump();
  EXPECT_EQ(completion(R"("truncate_prompt_tokens": -1, "max_tokens": 12)", exceeds).prompts[0].ids.size(), 500U);
  EXPECT_EQ(completion(R"("truncate_prompt_tokens": -1, "max_tokens": -1)", exceeds).prompts[0].ids.size(), 512U);
  EXPECT_FALSE(completion(R"("truncate_prompt_tokens": 1)").prompts[0].text) << "an echo has the tokens' text";
  EXPECT_EQ(chat(R"("truncate_prompt_tokens": 1)").prompts[0].ids.size(), 1U);
  expect_completion_error(R"("truncate_prompt_tokens": 0)", "prompt", "at least one token");
}

TEST_F(Requests, BodiesThatAreNoObject) {
  for (const char* body : {"", "[", "[]", "5", "{\"a\":1,\"a\":2}", "{} x", "\xFF", "{\"prompt\":\"\\ud800\"}"}) {
    SCOPED_TRACE(body);
    expect_refusal([&] { parse_completion(model_, body, 0); }, 400, "");
  }
  std::string deep(100, '[');
  expect_refusal([&] { parse_completion(model_, "{\"prompt\":" + deep, 0); }, 400, "", {"nested deeper"});
}

TEST_F(Requests, UnknownModels) {
  try {
    completion(R"("model": "defalt")");
    ADD_FAILURE();
  } catch (const RequestError& e) {
    EXPECT_EQ(e.kind().status, 404);
    EXPECT_EQ(e.to_json()["error"]["code"], "model_not_found");
    EXPECT_EQ(e.to_json()["error"]["param"], "model");
    EXPECT_THAT(std::string(e.what()), testing::HasSubstr("did you mean default?"));
  }
}

TEST_F(Requests, WithoutATokenizerPromptsAreIds) {
  model_.tokenizer = nullptr;
  EXPECT_EQ(completion("", "[4, 5]").prompts[0].ids, (Ids{4, 5}));
  expect_refusal([&] { completion(""); }, 400, "prompt", {"no tokenizer"});
  expect_refusal([&] { completion(R"("stop": "x")", "[1]"); }, 400, "stop", {"no tokenizer"});
}

TEST_F(Requests, ChatPromptsAreThoseOfTheTemplate) {
  const CompletionRequest request = chat(R"("max_completion_tokens": 5, "logprobs": true, "top_logprobs": 3)");
  EXPECT_EQ(request.prompts[0].ids, ids_of("user: Hi\nassistant:", SpecialTokens::none));
  EXPECT_EQ(request.sequence(0, model_.defaults).max_tokens, 5);
  EXPECT_EQ(request.sequence(0, model_.defaults).n_logprobs, 3);
  EXPECT_TRUE(request.reports_logprobs);
  EXPECT_EQ(chat("").sequence(0, model_.defaults).max_tokens, 512) << "up to the end of the context";
  const std::string parts =
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "a"},
          {"type": "text", "text": "b"}], "name": "n"}, {"role": "assistant", "content": "c", "refusal": null,
          "tool_calls": null}])";
  EXPECT_EQ(chat("", parts).prompts[0].ids,
            ids_of("system: s\nuser: a\nb\nassistant: c\nassistant:", SpecialTokens::none));
}

TEST_F(Requests, ConversationsAreRenderedAsTheRequestWants) {
  const auto ids = [&](const std::string& text) { return ids_of(text, SpecialTokens::none); };
  const std::string open = R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well, "}])";
  EXPECT_EQ(chat(R"("continue_final_message": true, "add_generation_prompt": false)", open).prompts[0].ids,
            ids("user: Hi\nassistant: Well, "));
  EXPECT_EQ(chat(R"("continue_final_message": true)", open).prompts[0].ids, ids("user: Hi\nassistant: Well, "));
  EXPECT_EQ(chat(R"("add_generation_prompt": false)").prompts[0].ids, ids("user: Hi\n"));
  const std::string messages = R"([{"role": "user", "type": "text", "cache_control": {"type": "ephemeral"}, "id": "m",
      "content": ["a", {"type": "input_text", "text": "b", "cache_control": {}}]}, {"role": "assistant", "content": "c",
      "reasoning": "r", "provider_specific_fields": {"x": 1}, "function_call": null}])";
  EXPECT_EQ(chat("", messages).prompts[0].ids, ids("user: a\nb\nassistant: c\nassistant:"));

  EXPECT_EQ(chat(R"("add_special_tokens": true)").prompts[0].ids, ids_of("user: Hi\nassistant:"));
  EXPECT_EQ(chat(R"("return_prompt_text": true)").prompts[0].text, "user: Hi\nassistant:");
  EXPECT_EQ(chat(R"("echo": true)").lead, "") << "the answer is of another role";
  EXPECT_EQ(chat(R"("echo": true)", open).lead, "Well, ");
  EXPECT_EQ(chat(R"("echo": true, "add_generation_prompt": false)").lead, "Hi");
  EXPECT_EQ(chat("", open).lead, "");

  ChatTemplates templates;
  templates.by_name["default"] =
      "{{ reasoning_effort }} {{ enable_thinking }} {{ documents | length if documents }} {{ messages[-1].content | "
      "trim }}!";
  chat_.emplace(templates, *tokenizer_, ChatVariables{}, "test");
  const auto text = [&](const std::string& fields) { return tokenizer_->decode(chat(fields).prompts[0].ids); };
  EXPECT_EQ(text(R"("reasoning_effort": "low", "documents": [{"text": "d"}])"), "low  1 Hi!");
  EXPECT_EQ(text(R"("reasoning_effort": "none")"), "none False  Hi!");
  EXPECT_EQ(text(R"("chat_template_kwargs": {"enable_thinking": true}, "reasoning_effort": "none")"), "none True  Hi!");
  const std::string spaced = R"([{"role": "assistant", "content": "Well, "}])";
  EXPECT_EQ(tokenizer_->decode(chat(R"("continue_final_message": true)", spaced).prompts[0].ids), "   Well,")
      << "the template trims the message";
  templates.by_name["default"] = "{{ messages[0].role }}";
  chat_.emplace(templates, *tokenizer_, ChatVariables{}, "test");
  EXPECT_THROW(chat(R"("continue_final_message": true)", R"([{"role": "user"}])"), BadInput) << "no text";
  EXPECT_THROW(chat(R"("continue_final_message": true)", spaced), BadInput) << "the template does not write it";
}

TEST_F(Requests, MessagesOfTheWrongForm) {
  const auto expect = [&](const std::string& messages, const std::string& param, const std::string& part = "") {
    SCOPED_TRACE(messages);
    expect_refusal([&] { chat("", messages); }, 400, param, {part});
  };
  expect("[]", "messages");
  expect("\"Hi\"", "messages");
  expect(R"([{"content": "x"}])", "messages[0].role");
  expect(R"([{"role": 1, "content": "x"}])", "messages[0].role");
  expect(R"([{"role": "user", "content": 5}])", "messages[0].content");
  expect(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
         "messages[0].content[0].type", "image_url");
  expect(R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text");
  expect(R"([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{}]}])",
         "messages[1].tool_calls[0].function");
  expect(R"([{"role": "user", "contents": "x"}])", "messages[0].contents", "did you mean content?");
  expect_chat_error(R"("top_logprobs": 3)", "top_logprobs");
  expect_chat_error(R"("continue_final_message": true, "add_generation_prompt": true)", "continue_final_message");
  expect_chat_error(R"("chat_template_kwargs": {"messages": [1]})", "chat_template_kwargs.messages");
  expect_chat_error(R"("chat_template_kwargs": 5)", "chat_template_kwargs");
  expect_chat_error(R"("chat_template_kwargs": {"message": 1})", "chat_template_kwargs.message",
                    "did you mean messages?");
  expect_chat_error(R"("reasoning_effort": "low")", "reasoning_effort", "reads neither");
  model_.chat = nullptr;
  expect("[]", "messages", "no chat template");
}

TEST_F(Requests, PlaceholdersOfImagesAreRefusedTypedInAChatAndAsIds) {
  const Checkpoint checkpoint = load_checkpoint(source_dir() + "/models/default");
  const std::int32_t id = ids_of("Once upon").back();
  const Model model(checkpoint.model->config(), checkpoint.model->params(), {}, {{id, "image"}});
  model_.model = &model;
  const auto refuses = testing::ThrowsMessage<BadInput>(testing::HasSubstr("image token " + std::to_string(id) + ": "));
  EXPECT_THAT([&] { completion(""); }, refuses);
  EXPECT_THAT([&] { completion("", "[" + std::to_string(id) + "]"); }, refuses);
  EXPECT_THAT([&] { chat("", R"([{"role": "user", "content": "Once upon"}])"); }, refuses);
  EXPECT_EQ(completion("", R"("Hi")").prompts.size(), 1U);
}

}  // namespace
}  // namespace vitrine::test
