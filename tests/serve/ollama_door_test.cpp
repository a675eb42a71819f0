// Ollama's interface: its requests as those of chats, completions and vectors, and its objects, lines and errors.
#include <regex>

#include "serve/ollama/reply.h"
#include "serve/ollama/request.h"
#include "serve/routes.h"
#include "serve/served.h"

namespace vitrine::test {
namespace {

class OllamaDoor : public ServedModelTest {
 protected:
  static std::string with(const std::string& first, const std::string& fields) {
    return "{" + first + (fields.empty() || first.empty() ? "" : ", ") + fields + "}";
  }
  ollama::TextRequest read_chat(const std::string& fields, const std::string& messages = kHi) const {
    return ollama::read_chat(model_, with(R"("messages": )" + messages, fields));
  }
  ollama::TextRequest read_generate(const std::string& fields) const {
    return ollama::read_generate(model_, with("", fields));
  }
  Json chat(const std::string& fields, const std::string& messages = kHi) const {
    return Json::parse(read_chat(fields, messages).body);
  }
  Json generate(const std::string& fields) const { return Json::parse(read_generate(fields).body); }
  void expect_chat_error(const std::string& fields, const std::string& messages, const std::string& param,
                         const std::string& part) const {
    SCOPED_TRACE(fields + messages);
    expect_refusal([&] { ollama::parse(model_, read_chat(fields, messages), 1); }, 400, param, {part});
  }
  void expect_generate_error(const std::string& fields, const std::string& param, const std::string& part) const {
    SCOPED_TRACE(fields);
    expect_refusal([&] { ollama::parse(model_, read_generate(fields), 1); }, 400, param, {part});
  }
  Json reply(const std::string& path, const std::string& body = "") const {
    return std::get<Route::Answer>(find_route(path)->handler)(model_, {body, "", "1", 0, {}});
  }
  GenerateResult result(const std::string& text, FinishReason reason = FinishReason::stop) const {
    GenerateResult result;
    result.ids = ids_of(text, SpecialTokens::none);
    result.text = text;
    result.finish_reason = reason;
    return result;
  }
  /// An answer whole, and as the lines of a text that comes in pieces of one byte.
  struct Answered {
    Json whole;
    std::vector<Json> lines;
  };
  Answered answered(const ollama::TextRequest& asked, const GenerateResult& result) const {
    const CompletionRequest request = ollama::parse(model_, asked, 1);
    const ServerClock::time_point start = ServerClock::now();
    ollama::OllamaReply whole(model_, request, asked, start), stream(model_, request, asked, start);
    Answered all{.whole = Json::parse(whole.whole(std::vector<GenerateResult>{result})), .lines = {}};
    std::string text;
    for (const char c : result.text) {
      SequenceStep step;
      step.tokens = {TokenReport{5, -0.5, {}}};
      step.text = std::string(1, c);
      text += stream.events(std::move(step));
    }
    SequenceStep last;
    last.result = result;
    text += stream.events(std::move(last)) + stream.last_events();
    for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
      end = text.find('\n', at);
      all.lines.push_back(Json::parse(text.substr(at, end - at)));
    }
    return all;
  }
  /// The message that a client puts together from lines.
  static Json message_of(const std::vector<Json>& lines) {
    Json message = {{"role", "assistant"}, {"content", ""}};
    for (const Json& line : lines) {
      EXPECT_EQ(line["done"], &line == &lines.back());
      for (const char* name : {"content", "thinking"}) {
        if (!line["message"].contains(name)) continue;
        message[name] = message.value(name, "") + line["message"][name].get<std::string>();
      }
      for (const Json& call : line["message"].value("tool_calls", Json::array())) message["tool_calls"].push_back(call);
    }
    return message;
  }

  static constexpr const char* kHi = R"([{"role": "user", "content": "Hi"}])";
  static constexpr const char* kTools = R"("tools": [{"type": "function", "function": {"name": "f",
      "parameters": {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "string"}},
                     "required": ["z"]}}}])";
};

TEST_F(OllamaDoor, FieldsAreThoseOfAChat) {
  EXPECT_EQ(chat(R"("model": "alias:latest", "format": "json", "keep_alive": "5m", "logprobs": true, "top_logprobs": 2,
      "options": {"temperature": 0.5, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "typical_p": 0.9, "seed": 4,
       "num_predict": 7, "stop": ["x"], "repeat_penalty": 1.1, "repeat_last_n": 64, "presence_penalty": 0.2,
       "frequency_penalty": 0.3, "num_ctx": 512, "mirostat": 0, "num_gpu": 1, "num_thread": 2, "use_mmap": true})"),
            Json::parse(R"({"model": "alias", "stream": true, "response_format": {"type": "json_object"},
      "logprobs": true, "top_logprobs": 2, "temperature": 0.5, "top_p": 0.5, "top_k": 3, "min_p": 0.1,
      "typical_p": 0.9, "seed": 4, "max_tokens": 7, "stop": ["x"], "repeat_penalty": 1.1, "repeat_last_n": 64,
      "presence_penalty": 0.2, "frequency_penalty": 0.3, "messages": [{"role": "user", "content": "Hi"}]})"));
  EXPECT_EQ(chat(R"("stream": false)")["stream"], false);
  EXPECT_EQ(chat(R"("options": {"num_predict": -2})")["max_tokens"], -1);
  const std::string text = read_chat(R"("format": {"type": "object", "properties": {"z": {}, "a": {}}})").body;
  EXPECT_THAT(text, testing::HasSubstr(R"("schema":{"type":"object","properties":{"z":{},"a":{}}})"));
  EXPECT_FALSE(chat(R"("format": "")").contains("response_format"));
}

TEST_F(OllamaDoor, AModelHasItsTagOrNone) {
  EXPECT_EQ(read_chat(R"("model": "default:latest")").model, "default:latest");
  EXPECT_EQ(read_chat(R"("name": "alias")").model, "alias") << "the old name of the field";
  EXPECT_EQ(read_chat("").model, "default");
  model_.names = {"org/m:latest"};
  EXPECT_EQ(chat(R"("model": "org/m")")["model"], "org/m:latest");
  try {
    read_chat(R"("model": "other")");
    ADD_FAILURE();
  } catch (const RequestError& e) {
    EXPECT_EQ(e.kind().status, 404);
    EXPECT_EQ(ollama::error_json(e), Json::parse(R"({"error": "model \"other\" not found"})"));
  }
}

TEST_F(OllamaDoor, CallsAndResultsFindEachOther) {
  const Json messages = chat("", R"([{"role": "user", "content": "a"},
      {"role": "assistant", "thinking": "t", "tool_calls": [
        {"function": {"index": 0, "name": "f", "arguments": {"z": 1, "a": "x"}}},
        {"id": "own", "function": {"name": "g", "arguments": {}}}, {"function": {"name": "g", "arguments": {}}}]},
      {"role": "tool", "tool_name": "g", "content": "1"}, {"role": "tool", "name": "f", "content": "2"},
      {"role": "tool", "content": "3"}, {"role": "assistant", "content": "It "}])")["messages"];
  EXPECT_EQ(messages, Json::parse(R"([{"role": "user", "content": "a"},
      {"role": "assistant", "content": "", "reasoning_content": "t", "tool_calls": [
       {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{\"z\":1,\"a\":\"x\"}"}},
       {"id": "own", "type": "function", "function": {"name": "g", "arguments": "{}"}},
       {"id": "call00002", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
      {"role": "tool", "content": "1", "name": "g", "tool_call_id": "own"},
      {"role": "tool", "content": "2", "name": "f", "tool_call_id": "call00000"},
      {"role": "tool", "content": "3", "tool_call_id": "call00002"}, {"role": "assistant", "content": "It "}])"));
  EXPECT_EQ(chat("", R"([{"role": "assistant", "content": "It "}])")["continue_final_message"], true);
  EXPECT_FALSE(chat("").contains("continue_final_message"));
}

TEST_F(OllamaDoor, ThinkIsTheSwitchOrTheEffort) {
  expect_chat_error(R"("think": true)", kHi, "think", "\"default\" does not support thinking");
  EXPECT_EQ(chat(R"("think": false)")["thinking_budget"], 0);
  use_agents_template();
  EXPECT_EQ(chat(R"("think": false)")["chat_template_kwargs"], Json::parse(R"({"enable_thinking": false})"));
  EXPECT_EQ(chat(R"("think": "high")")["chat_template_kwargs"], Json::parse(R"({"enable_thinking": true})"));
  EXPECT_FALSE(chat(R"("think": true)").contains("thinking_budget"));
  EXPECT_FALSE(chat(R"("think": "low")").contains("reasoning_effort")) << "the template does not read it";
  expect_chat_error(R"("think": "max")", kHi, "think", "medium");
  ChatTemplates templates;
  templates.by_name["default"] = "{{ reasoning_effort }}{% for m in messages %}{{ m.content }}{% endfor %}";
  chat_.emplace(templates, *tokenizer_, ChatVariables{}, "test");
  EXPECT_EQ(chat(R"("think": "low")")["reasoning_effort"], "low");
}

TEST_F(OllamaDoor, APromptIsAMessageOrATextToContinue) {
  EXPECT_EQ(generate(R"("prompt": "Hi", "system": "s")")["messages"],
            Json::parse(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "Hi"}])"));
  EXPECT_EQ(generate(R"("prompt": "Hi", "raw": true, "logprobs": true)"),
            Json::parse(R"({"model": "default", "stream": true, "prompt": "Hi", "max_tokens": -1, "logprobs": 0})"));
  EXPECT_EQ(generate(R"("prompt": "a", "suffix": "b", "options": {"num_predict": 3})"),
            Json::parse(R"({"model": "default", "stream": true, "prompt": "a", "suffix": "b", "max_tokens": 3})"));
  model_.defaults.search.max_new_tokens = 9;
  EXPECT_FALSE(generate(R"("prompt": "Hi", "raw": true)").contains("max_tokens")) << "the checkpoint has a limit";
  const std::string own = Json(model_.templates.choose(false, "model")).dump();
  EXPECT_EQ(generate(R"("prompt": "Hi", "template": )" + own), generate(R"("prompt": "Hi")"));
  expect_generate_error(R"("prompt": "Hi", "template": "{{ .Prompt }}")", "template", "--template");
  expect_generate_error(R"("prompt": "Hi", "raw": true, "system": "s")", "system", "raw");
  expect_generate_error(R"("prompt": "Hi", "raw": true, "context": [1])", "context", "raw");
  expect_generate_error(R"("prompt": "a", "suffix": "b")", "suffix", "no tokens");
  model_.chat = nullptr;
  EXPECT_EQ(generate(R"("prompt": "Hi")")["prompt"], "Hi") << "without a template the prompt is the text";
  expect_generate_error(R"("prompt": "Hi", "system": "s")", "system", "no chat template");
  expect_generate_error(R"("prompt": "Hi", "think": true)", "think", "does not support");
}

/// The context of an answer is what the next prompt comes after.
TEST_F(OllamaDoor, AContextIsPutBeforeThePrompt) {
  const ollama::TextRequest asked = read_generate(R"("prompt": "Hi")");
  const Answered answer = answered(asked, result("Hello"));
  std::vector<std::int32_t> context = ids_of("user: Hi\nassistant:", SpecialTokens::none);
  for (const std::int32_t id : result("Hello").ids) context.push_back(id);
  EXPECT_EQ(answer.whole["context"], Json(context));
  EXPECT_EQ(answer.lines.back()["context"], Json(context));
  const ollama::TextRequest next = read_generate(R"("prompt": "And?", "context": )" + Json(context).dump());
  for (const std::int32_t id : ids_of("user: And?\nassistant:", SpecialTokens::none)) context.push_back(id);
  EXPECT_EQ(ollama::parse(model_, next, 1).prompts[0].ids, context);
  const std::string ids = R"("prompt": "Hi", "context": )";
  expect_generate_error(ids + "[4096]", "context", "ids from 0");
  expect_generate_error(ids + Json(std::vector<int>(512, 5)).dump(), "context", "the model's context is 512");
  EXPECT_FALSE(answered(read_generate(R"("prompt": "Hi", "raw": true)"), result("a")).whole.contains("context"));
  model_.chat = nullptr;
  const ollama::TextRequest plain = read_generate(R"("prompt": "b", "context": [0, 5])");
  std::vector<std::int32_t> ids_after = {0, 5};
  for (const std::int32_t id : ids_of("b", SpecialTokens::none)) ids_after.push_back(id);
  EXPECT_EQ(ollama::parse(model_, plain, 1).prompts[0].ids, ids_after);
}

TEST_F(OllamaDoor, WhatIsNotSupportedIsNamed) {
  expect_chat_error("", R"([{"role": "user", "content": "a", "images": ["aGk="]}])", "messages[0].images", "text only");
  expect_generate_error(R"("prompt": "a", "images": ["aGk="])", "images", "text only");
  expect_chat_error("", R"([{"content": "a"}])", "messages[0].role", "a string");
  expect_chat_error("", R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content", "a string");
  expect_chat_error("", R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}])", "messages",
                    "results");
  expect_chat_error(R"("options": {"num_ctx": 513})", kHi, "options.num_ctx", "512");
  expect_chat_error(R"("options": {"mirostat": 2})", kHi, "options.mirostat", "not supported");
  expect_chat_error(R"("options": {"temprature": 2})", kHi, "options.temprature", "did you mean temperature?");
  expect_chat_error(R"("options": {"top_p": 2})", kHi, "top_p", "1");
  expect_chat_error(R"("format": "xml")", kHi, "format", "JSON Schema");
  expect_chat_error(R"("tool": [])", kHi, "tool", "did you mean tools?");
  expect_chat_error(kTools, kHi, "tools", "calls are not known");
  model_.unknown_fields = UnknownFields::ignore;
  EXPECT_FALSE(chat(R"("options": {"temprature": 2})").contains("temprature"));
  EXPECT_TRUE(chat(R"("images": [], "options": {"mirostat": 0.0, "tfs_z": 1.0})").contains("messages"));
}

TEST_F(OllamaDoor, NothingToAnswerLoadsTheModel) {
  EXPECT_TRUE(read_chat("", "[]").only_loads);
  EXPECT_TRUE(ollama::read_chat(model_, R"({"model": "default"})").only_loads);
  EXPECT_FALSE(read_chat("").only_loads);
  EXPECT_FALSE(read_generate(R"("prompt": "", "suffix": "b")").only_loads);
  Json loaded = ollama::load_json(read_generate(R"("model": "default", "keep_alive": -1)"));
  loaded.erase("created_at");
  EXPECT_EQ(loaded, Json::parse(R"({"model": "default", "response": "", "done": true, "done_reason": "load"})"));
  EXPECT_EQ(Json(ollama::load_json(read_chat("", "[]")))["message"],
            Json::parse(R"({"role": "assistant", "content": ""})"));
}

TEST_F(OllamaDoor, AnAnswerHasItsCountsAndDurations) {
  const ollama::TextRequest asked = read_chat(R"("model": "default:latest")");
  const CompletionRequest request = ollama::parse(model_, asked, 1);
  const ServerClock::time_point start = ServerClock::now();
  using namespace std::chrono_literals;
  JobTimes times;
  times.admitted = start + 3us;
  times.first_token = start + 10us;
  times.ended = start + 110us;
  ollama::OllamaReply reply(model_, request, asked, start);
  reply.set_times(times);
  const GenerateResult cut = result("Hello", FinishReason::length);
  Json whole = Json::parse(reply.whole(std::vector<GenerateResult>{cut}));
  EXPECT_TRUE(std::regex_match(whole["created_at"].get<std::string>(),
                               std::regex(R"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)")));
  whole.erase("created_at");
  EXPECT_EQ(whole, Json({{"model", "default:latest"},
                         {"message", {{"role", "assistant"}, {"content", "Hello"}}},
                         {"done", true},
                         {"done_reason", "length"},
                         {"total_duration", 110'000},
                         {"load_duration", 3'000},
                         {"prompt_eval_count", request.prompts[0].ids.size()},
                         {"prompt_eval_duration", 7'000},
                         {"eval_count", cut.ids.size()},
                         {"eval_duration", 100'000}}));
  EXPECT_STREQ(reply.stream_type(), "application/x-ndjson");
  EXPECT_EQ(ollama::time_text(std::chrono::system_clock::time_point(951'782'400s + 5us)),
            "2000-02-29T00:00:00.000005Z");
  const ollama::Durations none = ollama::durations_of(start, JobTimes());
  EXPECT_EQ(none.total, none.load) << "what has not begun has only waited";
}

TEST_F(OllamaDoor, ObjectsAndLinesAreTheSameMessage) {
  use_agents_template();
  const std::string call = R"(<c>{"name": "f", "arguments": {"z": 1, "a": "}"}}</c>)";
  const auto [whole, lines] = answered(read_chat(kTools), result("<think>hm</think>Let me see." + call + call));
  const Json& message = whole["message"];
  EXPECT_EQ(message["thinking"], "hm");
  EXPECT_EQ(message["content"], "Let me see.");
  ASSERT_EQ(message["tool_calls"].size(), 2U) << message;
  Json first = message["tool_calls"][0];
  EXPECT_EQ(first["id"].get<std::string>().size(), 29U);
  first.erase("id");
  EXPECT_EQ(first, Json::parse(R"({"function": {"index": 0, "name": "f", "arguments": {"z": 1, "a": "}"}}})"));
  EXPECT_EQ(whole["done_reason"], "stop");
  EXPECT_EQ(message_of(lines), message);
  const auto n_with_calls =
      std::ranges::count_if(lines, [](const Json& l) { return l["message"].contains("tool_calls"); });
  EXPECT_EQ(n_with_calls, 2) << "a call is sent when it is complete, not at the end";
  EXPECT_EQ(lines.back()["message"], Json::parse(R"({"role": "assistant", "content": ""})"));
  EXPECT_EQ(lines.back()["eval_count"], whole["eval_count"]);
}

/// Half of a call is no call. Before its arguments have begun it is a text.
TEST_F(OllamaDoor, ACallThatBreaksOffIsLeftOut) {
  use_agents_template();
  for (const char* half : {R"(<c>{"name": "f", "arguments": {"z": )", R"(<c>{"name": "f", "arguments": )"}) {
    const auto [whole, lines] = answered(read_chat(kTools), result(half, FinishReason::length));
    EXPECT_FALSE(whole["message"].contains("tool_calls")) << half;
    EXPECT_EQ(whole["done_reason"], "length");
    EXPECT_FALSE(message_of(lines).contains("tool_calls")) << half;
  }
}

TEST_F(OllamaDoor, TokensHaveTheirProbabilities) {
  GenerateResult answer = result("ab");
  const std::int32_t a = ids_of("a", SpecialTokens::none)[0];
  answer.logprobs = {TokenReport{a, -0.5, {{a, -0.5}}}};
  const auto [whole, lines] = answered(read_generate(R"("prompt": "Hi", "logprobs": true, "top_logprobs": 1)"), answer);
  ASSERT_EQ(whole["logprobs"].size(), 1U);
  EXPECT_EQ(whole["logprobs"][0]["logprob"], -0.5);
  EXPECT_EQ(whole["logprobs"][0]["top_logprobs"][0]["token"], whole["logprobs"][0]["token"]);
  EXPECT_EQ(whole["response"], "ab");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[1]["response"], "b");
  EXPECT_EQ(lines[1]["logprobs"].size(), 1U) << "of its own token only";
  EXPECT_FALSE(lines[2].contains("logprobs"));
}

TEST_F(OllamaDoor, VectorsHaveOneLengthOrTheModels) {
  const auto read = [&](const char* body) { return ollama::read_embed(model_, body); };
  model_.d_model = 2;
  ollama::VectorRequest two = read(R"({"model": "default:latest", "input": ["a cat", "b"], "dimensions": 2})");
  EXPECT_EQ(two.vectors.texts.ids, (std::vector{ids_of("a cat"), ids_of("b")}));
  EXPECT_EQ(two.vectors.options.normalize, true);
  const ollama::Durations took{.total = std::chrono::nanoseconds(9), .load = std::chrono::nanoseconds(4)};
  EXPECT_EQ(ollama::vectors_json(two, {{1, 0}, {0, 1}}, took),
            Json({{"model", "default:latest"},
                  {"embeddings", {{1.0, 0.0}, {0.0, 1.0}}},
                  {"total_duration", 9},
                  {"load_duration", 4},
                  {"prompt_eval_count", ids_of("a cat").size() + ids_of("b").size()}}));
  EXPECT_TRUE(read(R"({"input": ""})").vectors.texts.ids.empty());
  std::string words;
  for (int i = 0; i < 600; ++i) words += "cat ";
  EXPECT_EQ(read((R"({"input": ")" + words + "\"}").c_str()).vectors.texts.n_tokens, 512) << "cut to the context";
  expect_refusal([&] { read((R"({"truncate": false, "input": ")" + words + "\"}").c_str()); }, 400, "input", {"512"});
  expect_refusal([&] { read(R"({"input": [[1, 2]]})"); }, 400, "input", {"texts"});
  expect_refusal([&] { read(R"({"input": "a", "dimensions": 3})"); }, 400, "dimensions");
  const ollama::VectorRequest one = ollama::read_embeddings(model_, R"({"prompt": "a cat"})");
  EXPECT_FALSE(one.vectors.options.normalize);
  EXPECT_EQ(ollama::vectors_json(one, {{3, 4}}, {}), Json::parse(R"({"embedding": [3.0, 4.0]})"));
  EXPECT_EQ(ollama::vectors_json(ollama::read_embeddings(model_, "{}"), {}, {}), Json::parse(R"({"embedding": []})"));
}

/// Lines have no comments, however long a stream is silent.
TEST_F(OllamaDoor, AStreamHasLinesAndALoadHasNone) {
  const auto begin = [&](const char* path, const std::string& body) {
    return std::get<Route::Work>(find_route(path)->handler)(model_, {body, "", "1", 0, {}});
  };
  const std::string messages = std::string(R"("messages": )") + kHi;
  const auto lines = begin("/api/chat", "{" + messages + "}");
  EXPECT_TRUE(lines->streams());
  EXPECT_STREQ(lines->stream_type(), "application/x-ndjson");
  EXPECT_EQ(lines->silence(), std::nullopt);
  EXPECT_FALSE(begin("/api/chat", R"({"stream": false, )" + messages + "}")->streams());
  const auto events = begin("/v1/chat/completions", R"({"stream": true, )" + messages + "}");
  EXPECT_STREQ(events->stream_type(), kEventStream);
  EXPECT_EQ(events->silence(), std::chrono::seconds(2));
  const auto loads = begin("/api/generate", R"({"model": "alias"})");
  EXPECT_FALSE(loads->streams());
  EXPECT_TRUE(loads->has_ended()) << "without the scheduler";
  EXPECT_EQ(Json::parse(loads->reply().body)["done_reason"], "load");
}

TEST_F(OllamaDoor, ModelsAreDescribed) {
  model_.created = 951'782'400;
  model_.family = "llama";
  model_.d_model = 256;
  const auto shown = [&] { return reply("/api/show", R"({"model": "default:latest", "verbose": true})"); };
  EXPECT_EQ(shown()["capabilities"], Json::parse(R"(["completion"])"));
  EXPECT_EQ(shown()["modified_at"], "2000-02-29T00:00:00.000000Z");
  EXPECT_EQ(shown()["details"]["family"], "llama");
  EXPECT_EQ(shown()["model_info"]["llama.context_length"], 512);
  EXPECT_EQ(shown()["template"], model_.templates.by_name["default"]);
  use_agents_template();
  EXPECT_EQ(shown()["capabilities"], Json::parse(R"(["completion", "tools", "thinking"])"));
  model_.can_generate = false;
  EXPECT_EQ(shown()["capabilities"], Json::parse(R"(["embedding"])"));
  expect_refusal([&] { reply("/api/show", R"({"model": "other"})"); }, 404, "");
}

TEST_F(OllamaDoor, ModelsAreNotChanged) {
  for (const char* path : {"/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete"}) {
    expect_refusal([&] { reply(path, "{}"); }, 403, "");
    EXPECT_EQ(find_route(path)->door.error(RequestError(kInvalid, "a", "b")), Json::parse(R"({"error": "[a] b"})"));
  }
  EXPECT_EQ(find_route("/api/delete")->method, "DELETE");
  const HttpReply root = std::get<Route::Report>(find_route("/")->handler)({true, false});
  EXPECT_EQ(root.status, 200);
  EXPECT_EQ(root.body, "Ollama is running");
  EXPECT_EQ(find_route("/other"), nullptr) << "only the path itself";
}

}  // namespace
}  // namespace vitrine::test
