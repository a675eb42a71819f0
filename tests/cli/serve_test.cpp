// vitrine serve: the routes of a running server, streams, errors, signals.
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

const std::string kPrompt = "Once upon a time";

/// The default model, served once for all tests that do not end the server.
class Serve : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    server_ = new TestServer(
        {"--access-log", *folder_ / "log", "--name", "small", "--name", "alias", "--name", "org/model \xC3\xA9"});
  }
  static void TearDownTestSuite() {
    const Outcome o = server_->stop();
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.err, "");
    delete std::exchange(server_, nullptr);
    delete std::exchange(folder_, nullptr);
  }

  /// What `vitrine generate` makes of the same request.
  static Json generated(const std::string& text, const Arguments& more) {
    Arguments all = {"generate", text, "--temperature", "1", "--top-k", "0", "--top-p", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return json_of(all);
  }
  static Json completion(Json fields) {
    if (!fields.contains("prompt")) fields["prompt"] = kPrompt;
    const HttpResponse response = server_->post("/v1/completions", fields);
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }

  static inline TempFolder* folder_ = nullptr;
  static inline TestServer* server_ = nullptr;
};

TEST_F(Serve, TheFirstLineNamesUrlAndModels) {
  EXPECT_EQ(server_->first_line()["models"], Json::parse(R"(["small", "alias", "org/model é"])"));
  EXPECT_EQ(server_->first_line()["url"], "http://127.0.0.1:" + std::to_string(server_->port()));
}

TEST_F(Serve, HealthModelsAndUnknownRoutes) {
  EXPECT_EQ(server_->get("/health").json(), Json::parse(R"({"status": "ok"})"));
  const Json models = server_->get("/v1/models").json();
  EXPECT_EQ(models["data"][0]["id"], "small");
  EXPECT_EQ(models["data"][1]["id"], "alias");
  EXPECT_EQ(server_->get("/v1/models/alias").json()["id"], "alias");
  EXPECT_EQ(server_->get("/v1/models/other").status, 404);
  const HttpResponse unknown = server_->get("/nothing?x=1");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.json()["error"]["message"].get<std::string>(), HasSubstr("/nothing"));
  const HttpResponse wrong = server_->get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_THAT(wrong.head, HasSubstr("Allow: POST"));
}

TEST_F(Serve, HeadHasTheHeaderOfGet) {
  HttpClient client(server_->port());
  client.send("HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" + TestServer::get_text("/v1/models"));
  const std::string head = client.receive("\r\n\r\n");
  const HttpResponse whole = read_response(client);
  EXPECT_THAT(head, testing::StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(head, HasSubstr("Content-Length: " + std::to_string(whole.body.size()) + "\r\n"));
  EXPECT_EQ(whole.json()["object"], "list") << "the connection stays usable";
  client.send("HEAD /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.receive("\r\n\r\n"), testing::StartsWith("HTTP/1.1 404 "));
}

TEST_F(Serve, TargetsAreDecodedAndMayBeUrls) {
  EXPECT_EQ(server_->get("/v1/models/%61lias").json()["id"], "alias");
  EXPECT_EQ(server_->get("/v1/models/org%2Fmodel%20%C3%A9").json()["id"], "org/model \xC3\xA9");
  EXPECT_EQ(server_->get("http://localhost/v1/models").status, 200);
  EXPECT_EQ(server_->get("http://attacker.example/v1/models").status, 403) << "the target's host counts";
  const HttpResponse asked = server_->exchange("OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(asked.status, 204);
  EXPECT_THAT(asked.head, HasSubstr("Allow: GET, HEAD, OPTIONS"));
}

TEST_F(Serve, ACompletionIsThatOfGenerate) {
  const Json reply = completion({{"seed", 5}, {"max_tokens", 12}, {"logprobs", 2}, {"vitrine", Json::object()}});
  const Json expected = generated(kPrompt, {"--seed", "5", "--max-tokens", "12", "--logprobs", "2"});
  const Json& choice = reply["choices"][0];
  EXPECT_EQ(choice["text"], expected["text"]);
  EXPECT_EQ(choice["vitrine"]["ids"], expected["ids"]);
  EXPECT_EQ(choice["vitrine"]["prompt_ids"], expected["prompt_ids"]);
  EXPECT_EQ(choice["finish_reason"], expected["finish_reason"]);
  for (std::size_t i = 0; i < expected["ids"].size(); ++i) {
    EXPECT_EQ(choice["logprobs"]["token_logprobs"][i], expected["logprobs"][i]["logprob"]);
  }
  EXPECT_EQ(reply["usage"]["prompt_tokens"], expected["prompt_ids"].size());
  EXPECT_EQ(reply["usage"]["completion_tokens"], expected["ids"].size());
}

TEST_F(Serve, AStreamHasTheTextOfTheWholeResponse) {
  const Json fields = {
      {"prompt", {kPrompt, "The cat"}}, {"n", 2}, {"seed", 3}, {"max_tokens", 10}, {"stop", " a"}, {"logprobs", 1}};
  const Json whole = completion(fields);
  Json streamed = fields;
  streamed["stream"] = true;
  streamed["stream_options"]["include_usage"] = true;
  const HttpResponse response = server_->post("/v1/completions", streamed);
  EXPECT_THAT(response.head, HasSubstr("Content-Type: text/event-stream"));
  std::vector<std::string> texts(4);
  std::vector<Json> logprobs(4, Json::array()), reasons(4);
  std::size_t n_tokens = 0;
  const std::vector<Json> events = response.events();
  for (const Json& event : events) {
    for (const Json& choice : event["choices"]) {
      const std::size_t i = choice["index"];
      texts.at(i) += choice["text"].get<std::string>();
      if (!choice["logprobs"].is_null()) logprobs[i].push_back(choice["logprobs"]["token_logprobs"][0]), ++n_tokens;
      if (!choice["finish_reason"].is_null()) reasons[i] = choice["finish_reason"];
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(whole["choices"][i]["text"], texts[i]);
    EXPECT_EQ(whole["choices"][i]["logprobs"]["token_logprobs"], logprobs[i]);
    EXPECT_EQ(whole["choices"][i]["finish_reason"], reasons[i]);
  }
  for (const char* name : {"prompt_tokens", "completion_tokens", "total_tokens"}) {
    EXPECT_EQ(events.back()["usage"][name], whole["usage"][name]) << name;
  }
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], n_tokens) << "an event for each token";
}

TEST_F(Serve, OllamasLinesHaveTheTextOfACompletion) {
  const Json whole = completion({{"seed", 3}, {"max_tokens", 10}});
  Json fields = {
      {"model", "small:latest"}, {"prompt", kPrompt}, {"raw", true}, {"options", {{"seed", 3}, {"num_predict", 10}}}};
  const HttpResponse response = server_->post("/api/generate", fields);
  EXPECT_THAT(response.head, HasSubstr("Content-Type: application/x-ndjson"));
  std::string text;
  Json last;
  std::istringstream lines(response.body);
  for (std::string line; std::getline(lines, line);) {
    last = Json::parse(line);
    text += last["response"].get<std::string>();
  }
  EXPECT_EQ(text, whole["choices"][0]["text"]);
  EXPECT_EQ(last["done_reason"], whole["choices"][0]["finish_reason"]);
  EXPECT_EQ(last["eval_count"], whole["usage"]["completion_tokens"]);
  EXPECT_EQ(last["prompt_eval_count"], whole["usage"]["prompt_tokens"]);
  EXPECT_GT(last["prompt_eval_duration"], 0);
  EXPECT_GT(last["eval_duration"], 0);
  std::int64_t parts = 0;
  for (const char* name : {"load_duration", "prompt_eval_duration", "eval_duration"})
    parts += last[name].get<std::int64_t>();
  EXPECT_EQ(last["total_duration"], parts);
  fields["model"] = "other";
  const HttpResponse unknown = server_->post("/api/generate", fields);
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json(), Json::parse(R"({"error": "model \"other\" not found"})"));
  EXPECT_EQ(server_->get("/").body, "Ollama is running");
  EXPECT_EQ(server_->get("/api/tags").json()["models"][1]["name"], "alias");
}

TEST_F(Serve, ATextCanIncludeItsStop) {
  const std::string all = completion({{"max_tokens", 12}, {"temperature", 0}})["choices"][0]["text"];
  const std::string stop = all.substr(all.size() / 2, 3);
  const std::string before = all.substr(0, all.find(stop));
  Json fields = {{"max_tokens", 12}, {"temperature", 0}, {"stop", stop}};
  EXPECT_EQ(completion(fields)["choices"][0]["text"], before);
  fields["include_stop_str_in_output"] = true;
  EXPECT_EQ(completion(fields)["choices"][0]["text"], before + stop);
  EXPECT_EQ(completion(fields)["choices"][0]["finish_reason"], "stop");
}

TEST_F(Serve, SpecialTokensAppearIfTheyAreWanted) {
  Json fields = {{"max_tokens", 2}, {"temperature", 0}, {"logit_bias", {{"0", 100}}}, {"ignore_eos", true}};
  EXPECT_EQ(completion(fields)["choices"][0]["text"], "");
  fields["skip_special_tokens"] = false;
  const std::string twice = completion(fields)["choices"][0]["text"];
  ASSERT_FALSE(twice.empty());
  EXPECT_EQ(twice.substr(0, twice.size() / 2), twice.substr(twice.size() / 2));
  fields["ignore_eos"] = false;
  fields["include_stop_str_in_output"] = true;
  EXPECT_EQ(completion(fields)["choices"][0]["text"], twice.substr(twice.size() / 2)) << "what ends the text";
}

TEST_F(Serve, ABurstOfClientsIsAnswered) {
  const Json fields = {{"prompt", kPrompt}, {"max_tokens", 2}, {"temperature", 0}};
  const Json expected = completion(fields)["choices"];
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->port()));
    clients.back()->send(TestServer::post_text("/v1/completions", fields.dump()));
  }
  for (const auto& client : clients) {
    const HttpResponse response = read_response(*client);
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.json()["choices"], expected);
  }
}

TEST_F(Serve, APromptThatWasReadBeforeIsNotReadAgain) {
  const Json fields = {{"prompt", "The dog and the frog sat in the sun all day long"}, {"max_tokens", 8}, {"n", 2}};
  const auto without_usage = [](Json reply) {
    for (const char* name : {"id", "created", "usage"}) reply.erase(name);
    return reply;
  };
  Json seeded = fields;
  seeded["seed"] = 4;
  const Json first = completion(seeded), second = completion(seeded);
  EXPECT_EQ(without_usage(second), without_usage(first));
  EXPECT_EQ(second["usage"]["prompt_tokens_details"]["cached_tokens"],
            second["usage"]["prompt_tokens"].get<std::int64_t>() - 1)
      << "the last token is always read: its logits choose the next one";
}

TEST_F(Serve, RequestsAtOnceHaveTheirOwnTexts) {
  std::vector<Json> requests, alone;
  for (int i = 0; i < 12; ++i) {
    Json fields = {{"prompt", std::string(kPrompt, 0, static_cast<std::size_t>(4 + i))},
                   {"seed", i},
                   {"max_tokens", 8 + i},
                   {"logprobs", i % 3},
                   {"echo", i % 2 == 0},
                   {"temperature", i % 4 * 0.5}};
    if (i % 3 == 0) fields["n"] = 2;
    if (i % 4 == 1) fields["frequency_penalty"] = 1;
    if (i % 4 == 2) fields["logit_bias"]["5"] = 4;
    requests.push_back(fields);
    alone.push_back(completion(fields));
  }
  std::vector<std::unique_ptr<HttpClient>> clients, leaving;
  for (const Json& request : requests) {
    Json endless = request;
    endless["max_tokens"] = 400;
    endless["stream"] = true;
    leaving.push_back(std::make_unique<HttpClient>(server_->port()));
    leaving.back()->send(TestServer::post_text("/v1/completions", endless.dump()));
    clients.push_back(std::make_unique<HttpClient>(server_->port()));
    clients.back()->send(TestServer::post_text("/v1/completions", request.dump()));
  }
  leaving.clear();
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const HttpResponse response = read_response(*clients[i]);
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.json()["choices"], alone[i]["choices"]) << requests[i];
  }
}

TEST_F(Serve, ConnectionsServeManyRequests) {
  HttpClient client(server_->port());
  for (int i = 0; i < 3; ++i) {
    client.send(TestServer::post_text("/v1/completions", R"({"prompt": "a", "max_tokens": 2})") +
                TestServer::get_text("/health"));
    EXPECT_EQ(read_response(client).status, 200);
    EXPECT_EQ(read_response(client).json()["status"], "ok") << "sent with the request before it";
  }
  client.send(TestServer::get_text("/health", "Connection: close\r\n"));
  EXPECT_THAT(client.receive(), HasSubstr("Connection: close"));
}

TEST_F(Serve, OldClientsGetAStreamThatEndsWithTheConnection) {
  HttpClient client(server_->port());
  const std::string body = R"({"prompt": "a", "max_tokens": 2, "stream": true})";
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string all = client.receive();
  EXPECT_EQ(all.find("Transfer-Encoding"), all.npos);
  EXPECT_THAT(all, HasSubstr("\r\n\r\ndata: {"));
  EXPECT_TRUE(all.ends_with("data: [DONE]\n\n")) << all;
}

TEST_F(Serve, ErrorsAreObjects) {
  const auto error = [&](const Json& body) { return server_->post("/v1/completions", body); };
  const HttpResponse unknown = error({{"prompt", "a"}, {"max_token", 1}});
  EXPECT_EQ(unknown.status, 400);
  EXPECT_EQ(unknown.json()["error"]["param"], "max_token");
  EXPECT_THAT(unknown.json()["error"]["message"].get<std::string>(), HasSubstr("did you mean max_tokens?"));
  EXPECT_EQ(error({{"prompt", "a"}, {"model", "x"}}).status, 404);
  const HttpResponse too_long = error({{"prompt", std::vector<int>(600, 1)}});
  EXPECT_EQ(too_long.status, 400);
  EXPECT_EQ(too_long.json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(server_->exchange(TestServer::post_text("/v1/completions", "{")).status, 400);
  EXPECT_EQ(server_->exchange(TestServer::post_text("/v1/chat/completions", R"({"messages": []})")).status, 400)
      << "the default model has no template";
}

TEST_F(Serve, RequestsThatAreNoHttp) {
  const auto status_of = [&](const std::string& text) { return server_->exchange(text).status; };
  EXPECT_EQ(status_of("hello\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /health HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /health HTTP/1.1\r\nHost: localhost\r\nx: " + std::string(20'000, 'a') + "\r\n\r\n"), 431);
  std::string many;
  for (int i = 0; i < 200; ++i) many += "x: y\r\n";
  EXPECT_EQ(status_of(TestServer::get_text("/health", many)), 431);
  EXPECT_EQ(status_of(TestServer::get_text("/health", "Transfer-Encoding: gzip\r\n")), 400);
  const std::string chunks =
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(status_of(chunks + "f\r\n{\"prompt\": \"ab\"\r\n1\r\n}\r\n0\r\n\r\n"), 200);
  EXPECT_EQ(status_of(chunks + "xyz\r\n"), 400);
  EXPECT_EQ(status_of(TestServer::post_text("/tokenize", "{}", "Content-Length: 3\r\n")), 400);
  EXPECT_EQ(status_of("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      "Content-Length: 99999999999\r\n\r\n"),
            413);
  EXPECT_EQ(
      status_of(
          "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"),
      415);
  EXPECT_EQ(status_of("GET /health HTTP/1.1\r\nHost: attacker.example\r\n\r\n"), 403);
  EXPECT_EQ(status_of(TestServer::get_text("/health", "Origin: http://attacker.example\r\n")), 403);
  EXPECT_EQ(status_of(TestServer::get_text("/health")), 200);
}

TEST_F(Serve, TheTokenizersRoutes) {
  const Json tokens = server_->post("/tokenize", {{"prompt", kPrompt}}).json();
  EXPECT_EQ(tokens["tokens"], json_of({"tokenize", source_dir() + "/models/default", kPrompt})["ids"]);
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  EXPECT_EQ(tokens["max_model_len"], 512);
  EXPECT_EQ(server_->post("/detokenize", {{"tokens", tokens["tokens"]}}).json()["prompt"], kPrompt);
  const Json info = server_->get("/tokenizer_info").json();
  EXPECT_TRUE(info["eos_token"].is_string()) << info;
  EXPECT_TRUE(info["chat_template"].is_null());
}

TEST_F(Serve, VectorsAreThoseOfEncode) {
  const HttpResponse response = server_->post("/v1/embeddings", {{"input", {kPrompt, "The cat"}}});
  ASSERT_EQ(response.status, 200) << response.body;
  const Json expected = json_of({"encode", kPrompt});
  EXPECT_EQ(response.json()["data"][0]["embedding"], expected["embedding"]);
  EXPECT_EQ(response.json()["data"].size(), 2U);
  EXPECT_EQ(server_->post("/v1/embeddings", {{"input", Json::array()}}).status, 400);
}

TEST_F(Serve, TheAccessLogHasALineForEachRequest) {
  const HttpResponse response = server_->post("/v1/completions", {{"prompt", "secret text"}, {"max_tokens", 3}},
                                              "x-request-id: my-id\r\nAuthorization: Bearer secret-key\r\n");
  EXPECT_THAT(response.head, HasSubstr("x-request-id: my-id"));
  EXPECT_EQ(response.json()["id"], "cmpl-my-id");
  EXPECT_EQ(server_->get("/health").status, 200) << "the line is written after the response";
  const std::string log = read_file(*folder_ / "log");
  EXPECT_EQ(log.find("secret"), log.npos);
  const std::size_t at = log.find("{\"request_id\":\"my-id\"");
  ASSERT_NE(at, log.npos) << log;
  const Json line = Json::parse(log.substr(at, log.find('\n', at) - at));
  EXPECT_EQ(line["method"], "POST");
  EXPECT_EQ(line["path"], "/v1/completions");
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["completion_tokens"], 3);
  for (const char* name : {"prompt_tokens", "cached_tokens", "queue_ms", "first_token_ms", "total_ms"}) {
    EXPECT_TRUE(line[name].is_number()) << name;
  }
  EXPECT_THAT(server_->get("/metrics").body, HasSubstr("\nvitrine_requests_total{model=\"small\"} "));
}

}  // namespace
}  // namespace vitrine::test
