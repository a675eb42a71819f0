// Responses: choices, log-probabilities, echo, chunks of streams, usage.
#include "serve/completion_reply.h"

#include <cmath>

#include "serve/served.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

class Replies : public ServedModelTest {
 protected:
  CompletionRequest completion(const std::string& fields, const std::string& prompt = R"("Once upon")") const {
    return parse_completion(model_, R"({"prompt": )" + prompt + (fields.empty() ? "" : ", " + fields) + "}", 1);
  }
  CompletionRequest chat(const std::string& fields) const {
    return parse_chat(
        model_, R"({"messages": [{"role": "user", "content": "Hi"}])" + (fields.empty() ? "" : ", " + fields) + "}", 1);
  }
  /// The result of a text, in which each token has the log-probability -id/8 and one alternative.
  GenerateResult result(const std::string& text, FinishReason reason = FinishReason::length) const {
    GenerateResult result;
    result.ids = ids_of(text, SpecialTokens::none);
    result.text = text;
    for (const std::int32_t id : result.ids) result.logprobs.push_back(report(id));
    result.finish_reason = reason;
    return result;
  }
  static TokenReport report(std::int32_t id) { return {id, -id / 8.0, {{id + 1, -0.1}}}; }
  Json whole(const CompletionRequest& request, const std::vector<GenerateResult>& results) const {
    CompletionReply reply(model_, request, "1", 5);
    return Json::parse(json_text(reply.whole(results)));
  }
};

TEST_F(Replies, ACompletion) {
  const CompletionRequest request = completion("");
  const Json reply = whole(request, {result(" a time", FinishReason::stop)});
  EXPECT_EQ(reply["id"], "cmpl-1");
  EXPECT_EQ(reply["object"], "text_completion");
  EXPECT_EQ(reply["created"], 5);
  EXPECT_EQ(reply["model"], "default");
  EXPECT_EQ(reply["choices"],
            Json::parse(R"([{"index": 0, "text": " a time", "logprobs": null, "finish_reason": "stop"}])"));
  const auto n_prompt = ids_of("Once upon").size(), n_new = ids_of(" a time", SpecialTokens::none).size();
  EXPECT_EQ(reply["usage"]["prompt_tokens"], n_prompt);
  EXPECT_EQ(reply["usage"]["completion_tokens"], n_new);
  EXPECT_EQ(reply["usage"]["total_tokens"], n_prompt + n_new);
  EXPECT_EQ(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST_F(Replies, AChat) {
  const CompletionRequest request = chat(R"("model": "alias", "vitrine": {})");
  const Json reply = whole(request, {result("Hello")});
  EXPECT_EQ(reply["id"], "chatcmpl-1");
  EXPECT_EQ(reply["object"], "chat.completion");
  EXPECT_EQ(reply["model"], "alias");
  const Json choice = reply["choices"][0];
  EXPECT_EQ(choice["message"], Json::parse(R"({"role": "assistant", "content": "Hello", "refusal": null})"));
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["vitrine"]["ids"], Json(ids_of("Hello", SpecialTokens::none)));
  EXPECT_EQ(choice["vitrine"]["prompt_ids"], Json(request.prompts[0].ids));
}

TEST_F(Replies, AnAnswerCanBeginWithTheMessageThatItContinues) {
  const std::string body =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well, "}], "echo": true,
          "return_prompt_text": true, "continue_final_message": true)";
  const std::string prompt = "user: Hi\nassistant: Well, ";
  const Json reply = whole(parse_chat(model_, body + "}", 1), {result("Hello")});
  EXPECT_EQ(reply["choices"][0]["message"]["content"], "Well, Hello");
  EXPECT_EQ(reply["prompt_text"], prompt);
  const CompletionRequest streamed = parse_chat(model_, body + R"(, "stream": true})", 1);
  CompletionReply stream(model_, streamed, "1", 5);
  std::string text;
  for (const char* own : {"Hel", "lo"}) {
    SequenceStep step;
    step.tokens = {report(5)};
    step.text = own;
    const Json event = stream.chunks(step).front();
    EXPECT_EQ(event.value("prompt_text", ""), text.empty() ? prompt : "");
    text += event["choices"][0]["delta"]["content"].get<std::string>();
  }
  EXPECT_EQ(text, "Well, Hello");
}

TEST_F(Replies, IdsAreReturned) {
  const Ids ids = ids_of("Hello", SpecialTokens::none);
  const CompletionRequest text = completion(R"("return_token_ids": true, "logprobs": 0,
      "return_tokens_as_token_ids": true)");
  Json reply = whole(text, {result("Hello")});
  EXPECT_EQ(reply["choices"][0]["token_ids"], Json(ids));
  EXPECT_EQ(reply["choices"][0]["prompt_token_ids"], Json(text.prompts[0].ids));
  EXPECT_EQ(reply["choices"][0]["logprobs"]["tokens"][0], "token_id:" + std::to_string(ids[0]));
  const CompletionRequest of_chat = chat(R"("return_token_ids": true)");
  reply = whole(of_chat, {result("Hello")});
  EXPECT_EQ(reply["prompt_token_ids"], Json(of_chat.prompts[0].ids));
  EXPECT_EQ(reply["choices"][0]["token_ids"], Json(ids));
}

TEST_F(Replies, EveryEventCanHaveTheUsageAndTheIds) {
  const CompletionRequest request = completion(R"("stream": true, "return_token_ids": true,
      "stream_options": {"include_usage": true, "continuous_usage_stats": true})");
  CompletionReply reply(model_, request, "1", 5);
  for (int n = 1; n <= 3; ++n) {
    SequenceStep step;
    step.tokens = {report(n)};
    const Json event = reply.chunks(std::move(step))[0];
    EXPECT_EQ(event["usage"]["completion_tokens"], n);
    EXPECT_EQ(event["choices"][0]["token_ids"], Json(Ids{n}));
    EXPECT_EQ(event["choices"][0].contains("prompt_token_ids"), n == 1);
  }
}

TEST_F(Replies, ChoicesAreNumberedThroughAllPrompts) {
  const CompletionRequest request = completion(R"("n": 2)", R"(["a", "b"])");
  const Json reply = whole(request, {result("0"), result("1"), result("2"), result("3")});
  ASSERT_EQ(reply["choices"].size(), 4U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(reply["choices"][static_cast<std::size_t>(i)]["index"], i);
    EXPECT_EQ(reply["choices"][static_cast<std::size_t>(i)]["text"], std::to_string(i));
  }
  EXPECT_EQ(reply["usage"]["prompt_tokens"], ids_of("a").size() + ids_of("b").size()) << "a prompt counts once";
}

TEST_F(Replies, TheBestSequencesHaveTheLargestMeanLogprob) {
  const CompletionRequest request = completion(R"("n": 2, "best_of": 3)");
  EXPECT_TRUE(request.sequence(0, model_.defaults).wants_logprobs);
  std::vector<GenerateResult> results(3);
  const double logprobs[3][2] = {{-2, -2}, {-0.5, -3}, {-1, -1}};
  for (std::size_t i = 0; i < 3; ++i) {
    results[i].text = std::to_string(i);
    for (const double p : logprobs[i]) results[i].logprobs.push_back({1, p, {}});
  }
  Json reply = whole(request, results);
  EXPECT_EQ(reply["choices"][0]["text"], "2");
  EXPECT_EQ(reply["choices"][1]["text"], "1");
  EXPECT_TRUE(reply["choices"][0]["logprobs"].is_null()) << "the client did not want them";
  results[0].stop_token = TokenReport{0, 5.5, {}};  // the mean of three becomes 0.5
  reply = whole(request, results);
  EXPECT_EQ(reply["choices"][0]["text"], "0");
}

TEST_F(Replies, LogprobsOfACompletion) {
  const CompletionRequest request = completion(R"("logprobs": 1)");
  const GenerateResult generated = result(" a time");
  const Json logprobs = whole(request, {generated})["choices"][0]["logprobs"];
  std::string text;
  ASSERT_EQ(logprobs["tokens"].size(), generated.ids.size());
  for (std::size_t i = 0; i < generated.ids.size(); ++i) {
    const std::string token = logprobs["tokens"][i];
    EXPECT_EQ(logprobs["text_offset"][i], text.size());
    text += token;
    EXPECT_EQ(logprobs["token_logprobs"][i], -generated.ids[i] / 8.0);
    const Json& top = logprobs["top_logprobs"][i];
    EXPECT_EQ(top.size(), 2U) << "the most likely token, and the chosen one";
    EXPECT_EQ(top[token], -generated.ids[i] / 8.0);
  }
  EXPECT_EQ(text, " a time");
}

TEST_F(Replies, AnEchoBeginsWithThePrompt) {
  const CompletionRequest request = completion(R"("logprobs": 0, "echo": true)");
  GenerateResult generated = result(" a");
  for (std::size_t i = 1; i < request.prompts[0].ids.size(); ++i) {
    generated.prompt_logprobs.push_back(report(request.prompts[0].ids[i]));
  }
  const Json choice = whole(request, {generated})["choices"][0];
  EXPECT_EQ(choice["text"], "Once upon a");
  const Json& logprobs = choice["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), request.prompts[0].ids.size() + generated.ids.size());
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["token_logprobs"][1], -request.prompts[0].ids[1] / 8.0);
  EXPECT_EQ(logprobs["text_offset"].back(), std::string("Once upon").size());
  const CompletionRequest of_ids = completion(R"("echo": true)", Json(ids_of("Once upon")).dump());
  EXPECT_EQ(whole(of_ids, {result(" a")})["choices"][0]["text"], "Once upon a");
}

TEST_F(Replies, LogprobsOfAChat) {
  const CompletionRequest request = chat(R"("logprobs": true, "top_logprobs": 1)");
  const GenerateResult generated = result("é");
  const Json content = whole(request, {generated})["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), generated.ids.size());
  std::string bytes;
  for (const Json& token : content) {
    for (const Json& byte : token["bytes"]) bytes += static_cast<char>(byte.get<int>());
    ASSERT_EQ(token["top_logprobs"].size(), 2U);
    EXPECT_EQ(token["top_logprobs"][1]["token"], token["token"]);
    EXPECT_EQ(token["top_logprobs"][1]["logprob"], token["logprob"]);
  }
  EXPECT_EQ(bytes, "é");
  const Json none = whole(chat(R"("logprobs": true)"), {generated})["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(none[0]["top_logprobs"], Json::array());
}

/// vLLM's use_beam_search: the texts of a search are the choices.
TEST_F(Replies, TheBeamsOfASearch) {
  const CompletionRequest request = completion(R"("use_beam_search": true, "n": 2)", R"(["a", "b"])");
  ASSERT_EQ(request.n_sequences(), 2U);
  std::vector<GenerateResult> results(2);
  results[0].hypotheses = {{{5}, "x", -1, FinishReason::stop}, {{6, 7}, "yz", -2, FinishReason::length}};
  results[1].hypotheses = {{{5}, "u", -1, FinishReason::length}, {{6}, "v", -2, FinishReason::stop}};
  const Json reply = whole(request, results);
  std::string texts;
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& choice = reply["choices"][i];
    EXPECT_EQ(choice["index"], i);
    texts += choice["text"].get<std::string>() + " ";
  }
  EXPECT_EQ(texts, "x yz u v ");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(reply["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(reply["usage"]["completion_tokens"], 5);
  results[0].hypotheses.pop_back();  // a constraint may leave fewer texts than beams
  EXPECT_EQ(whole(request, results)["choices"].size(), 3U);
}

/// vLLM's prompt_logprobs, beside log-probabilities of fewer tokens.
TEST_F(Replies, LogprobsOfAPrompt) {
  const CompletionRequest request = completion(R"("prompt_logprobs": 2)", "[5, 6, 7]");
  GenerateResult generated = result(" a");
  generated.prompt_logprobs = {{6, -1.5, {{9, -0.25}, {6, -1.5}, {8, -3}}, 2}, {7, -4, {{6, -0.5}, {8, -0.75}}, 40}};
  const Json choice = whole(request, {generated})["choices"][0];
  EXPECT_TRUE(choice["logprobs"].is_null());
  const Json& list = choice["prompt_logprobs"];
  ASSERT_EQ(list.size(), 3U);
  EXPECT_TRUE(list[0].is_null());
  EXPECT_EQ(list[1].size(), 2U);
  EXPECT_EQ(list[1]["6"]["rank"], 2);
  EXPECT_EQ(list[1]["9"]["logprob"], -0.25);
  EXPECT_EQ(list[1]["6"]["decoded_token"], tokenizer_->bytes(6));
  EXPECT_EQ(list[2].size(), 3U);
  EXPECT_EQ(list[2]["7"]["rank"], 40);
  EXPECT_EQ(list[2]["7"]["logprob"], -4.0);
}

/// llama-server's post_sampling_probs.
TEST_F(Replies, ProbabilitiesWithWhichTokensWereDrawn) {
  GenerateResult generated = result(" a");
  for (TokenReport& token : generated.logprobs) token.logprob = std::log(0.25);
  const Json entry = whole(completion(R"("n_probs": 1, "post_sampling_probs": true)"),
                           {generated})["choices"][0]["logprobs"]["content"][0];
  EXPECT_NEAR(entry["prob"].get<double>(), 0.25, 1e-12);
  EXPECT_FALSE(entry.contains("logprob"));
  EXPECT_FALSE(entry["top_probs"].empty());
  EXPECT_FALSE(whole(completion(R"("n_probs": 1)"), {generated})["choices"][0]["logprobs"].contains("content"));
}

TEST_F(Replies, LogprobsReadBackEqual) {
  const CompletionRequest request = completion(R"("logprobs": 0)");
  GenerateResult generated;
  for (int i = 1; i < 200; ++i) {
    generated.ids.push_back(i);
    generated.logprobs.push_back({i, -static_cast<double>(i) / 7.0 * 1e-3, {}});
  }
  const Json logprobs = whole(request, {generated})["choices"][0]["logprobs"];
  for (std::size_t i = 0; i < generated.ids.size(); ++i) {
    EXPECT_EQ(logprobs["token_logprobs"][i].get<double>(), generated.logprobs[i].logprob);
  }
}

TEST_F(Replies, TokensWithoutTextHaveNames) {
  const TokenTexts texts(tokenizer_.get(), std::nullopt);
  EXPECT_EQ(texts.next(0).text, tokenizer_->piece(0)) << "a control token has no bytes";
  EXPECT_FALSE(texts.next(0).bytes);
  EXPECT_EQ(texts.next(100'000).text, "token_id:100000");
  EXPECT_EQ(TokenTexts(nullptr, 3).next(7).text, "token_id:7");
  const Ids ids = ids_of("€", SpecialTokens::none);
  ASSERT_EQ(ids.size(), 3U) << "a token for each byte";
  EXPECT_EQ(texts.next(ids[0]).text, "bytes:\\xe2");
}

TEST_F(Replies, OffsetsCountCharacters) {
  TokenTexts texts(tokenizer_.get(), std::nullopt);
  for (const std::int32_t id : ids_of("a€b", SpecialTokens::none)) texts.advance(id);
  EXPECT_EQ(texts.n_characters(), 3);
}

TEST_F(Replies, InvalidBytesAreReplaced) {
  GenerateResult generated;
  generated.text = "a\xFF";
  EXPECT_EQ(whole(completion(""), {generated})["choices"][0]["text"], "a\xEF\xBF\xBD");
}

class Streams : public Replies {
 protected:
  SequenceStep step(std::size_t sequence, std::int32_t id, const std::string& text) const {
    SequenceStep s;
    s.id = sequence;
    s.tokens = {report(id)};
    s.text = text;
    return s;
  }
  SequenceStep end(std::size_t sequence, const std::string& text, GenerateResult result) const {
    SequenceStep s;
    s.id = sequence;
    s.text = text;
    s.result = std::move(result);
    return s;
  }
};

TEST_F(Streams, EveryTokenIsAChunk) {
  const CompletionRequest request = completion(R"("stream": true, "stream_options": {"include_usage": true}, "n": 2)");
  CompletionReply reply(model_, request, "1", 5);
  const std::vector<Json> first = reply.chunks(step(1, 20, ""));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0]["choices"], Json::parse(R"([{"index": 1, "text": "", "logprobs": null, "finish_reason": null}])"));
  EXPECT_TRUE(first[0]["usage"].is_null());
  SequenceStep last = step(1, 21, "b");
  last.result = result("b", FinishReason::length);
  const Json final = reply.chunks(std::move(last))[0]["choices"][0];
  EXPECT_EQ(final["text"], "b");
  EXPECT_EQ(final["finish_reason"], "length");
  EXPECT_EQ(reply.chunks(end(0, "", result("", FinishReason::stop)))[0]["choices"][0]["finish_reason"], "stop");
  const Json usage = reply.usage_chunk();
  EXPECT_EQ(usage["choices"], Json::array());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 2);
}

TEST_F(Streams, TheFirstChunkOfAChatHasTheRole) {
  const CompletionRequest request = chat(R"("stream": true, "logprobs": true, "vitrine": {})");
  CompletionReply reply(model_, request, "1", 5);
  const Json first = reply.chunks(step(0, 20, "a"))[0];
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_FALSE(first.contains("usage"));
  EXPECT_EQ(first["choices"][0]["delta"], Json::parse(R"({"role": "assistant", "content": "a"})"));
  EXPECT_EQ(first["choices"][0]["logprobs"]["content"].size(), 1U);
  const Json second = reply.chunks(step(0, 21, "b"))[0]["choices"][0];
  EXPECT_EQ(second["delta"], Json::parse(R"({"content": "b"})"));
  EXPECT_EQ(second["logprobs"]["content"].size(), 1U) << "of this token only";
  const Json last = reply.chunks(end(0, "", result("", FinishReason::stop)))[0]["choices"][0];
  EXPECT_EQ(last["vitrine"]["ids"], Json(Ids{20, 21}));
}

TEST_F(Streams, AnEchoIsPartOfTheFirstChunk) {
  const CompletionRequest plain = completion(R"("stream": true, "echo": true)");
  CompletionReply reply(model_, plain, "1", 5);
  EXPECT_EQ(reply.chunks(step(0, 20, " a"))[0]["choices"][0]["text"], "Once upon a");
  EXPECT_EQ(reply.chunks(step(0, 20, " b"))[0]["choices"][0]["text"], " b");
}

TEST_F(Streams, LogprobsOfAnEchoComeAsThePromptIsRead) {
  const CompletionRequest request = completion(R"("stream": true, "echo": true, "logprobs": 1)", "[5, 6, 7, 8]");
  EXPECT_TRUE(request.sequence(0, model_.defaults).prompt_logprobs_in_steps);
  CompletionReply reply(model_, request, "1", 5);
  SequenceStep read;
  read.prompt_logprobs = {report(6), report(7)};
  std::vector<Json> chunks = reply.chunks(read);
  ASSERT_EQ(chunks.size(), 1U);
  const std::string text = chunks[0]["choices"][0]["text"];
  EXPECT_EQ(text, tokenizer_->decode(request.prompts[0].ids)) << "all of the prompt";
  EXPECT_EQ(chunks[0]["choices"][0]["logprobs"]["token_logprobs"], Json({nullptr, -6 / 8.0, -7 / 8.0}));
  SequenceStep last = step(0, 20, " a");
  last.prompt_logprobs = {report(8)};
  chunks = reply.chunks(last);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[0]["choices"][0]["text"], "");
  EXPECT_EQ(chunks[0]["choices"][0]["logprobs"]["token_logprobs"], Json({-1.0}));
  EXPECT_EQ(chunks[1]["choices"][0]["text"], " a");
  EXPECT_EQ(chunks[1]["choices"][0]["logprobs"]["text_offset"][0], text.size());
  chunks = reply.chunks(end(0, "", result(" a")));
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0]["choices"][0]["finish_reason"], "length");
}

TEST_F(Streams, AnEchoOfOneTokenHasNoLogprob) {
  const CompletionRequest request = completion(R"("stream": true, "echo": true, "logprobs": 0)", "[5]");
  CompletionReply reply(model_, request, "1", 5);
  const std::vector<Json> chunks = reply.chunks(step(0, 20, "a"));
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[0]["choices"][0]["logprobs"]["token_logprobs"], Json::array({nullptr}));
}

}  // namespace
}  // namespace vitrine::test
