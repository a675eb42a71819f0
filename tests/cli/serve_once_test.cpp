// vitrine serve: a server that ends within a test: signals, queues, limits, keys.
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class ServeOnce : public testing::Test {
 protected:
  /// The value of a line of /metrics.
  static std::int64_t metric(const TestServer& server, const std::string& name, const std::string& fields = "") {
    const std::string text = server.get("/metrics", fields).body, line = "\nvitrine_" + name + "{model=";
    const std::size_t at = text.find(line), value = text.find("} ", at);
    EXPECT_NE(at, text.npos) << name;
    return at == text.npos ? -1 : std::atoll(text.c_str() + value + 2);
  }
  static void wait_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20 * kSlowdown);
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  Arguments endless() const {
    return {endless_model(folder_), "--tokenizer", small_tokenizer(folder_), "--access-log", folder_ / "log"};
  }
  static std::string endless_request(bool streams) {
    const Json body = {
        {"prompt", {5, 6}}, {"max_tokens", 900'000}, {"ignore_eos", true}, {"stream", streams}, {"temperature", 0}};
    return TestServer::post_text("/v1/completions", body.dump());
  }

  const TempFolder folder_;
};

TEST_F(ServeOnce, TheWorkOfAClientThatLeavesEnds) {
  TestServer server(endless());
  for (const bool streams : {true, false}) {
    const std::int64_t before = metric(server, "requests_cancelled_total");
    HttpClient client(server.port());
    client.send(endless_request(streams));
    wait_until([&] { return metric(server, "requests_running") == 1; });
    wait_until([&] { return metric(server, "kv_used_bytes") > 0; });
    client.close();
    wait_until([&] { return metric(server, "requests_running") == 0; });
    EXPECT_EQ(metric(server, "requests_cancelled_total"), before + 1);
    EXPECT_EQ(metric(server, "kv_used_bytes"), 0);
  }
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeOnce, ASignalLetsStreamsFinish) {
  TestServer server(endless());
  HttpClient client(server.port());
  const Json body = {{"prompt", {5, 6}}, {"max_tokens", 3000}, {"ignore_eos", true}, {"stream", true}};
  client.send(TestServer::post_text("/v1/completions", body.dump()));
  client.receive("data: ");
  server.program().send(SIGTERM);
  wait_until([&] { return server.get("/health").status == 503; });
  const HttpResponse refused = server.post("/v1/completions", {{"prompt", {5}}});
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.head, HasSubstr("Retry-After: "));
  EXPECT_THAT(client.receive("0\r\n\r\n"), HasSubstr("data: [DONE]"));
  const Outcome o = server.program().finish();
  EXPECT_EQ(o.status, 0) << o.err;
}

TEST_F(ServeOnce, AfterTheDrainTimeStreamsAreEnded) {
  Arguments arguments = endless();
  arguments.insert(arguments.end(), {"--drain-seconds", "0.2"});
  TestServer server(arguments);
  HttpClient client(server.port());
  client.send(endless_request(true));
  client.receive("data: ");
  server.program().send(SIGTERM);
  const std::string rest = client.receive("0\r\n\r\n");
  EXPECT_THAT(rest, HasSubstr("the server is shutting down"));
  EXPECT_EQ(server.program().finish().status, 0);
}

TEST_F(ServeOnce, AFullQueueIsRefused) {
  Arguments arguments = endless();
  arguments.insert(arguments.end(), {"--max-sequences", "1", "--max-queue", "1"});
  TestServer server(arguments);
  HttpClient running(server.port()), waiting(server.port());
  running.send(endless_request(false));  // a stream that nobody reads would leave its place to the other
  wait_until([&] { return metric(server, "requests_running") == 1; });
  waiting.send(endless_request(true));
  wait_until([&] { return metric(server, "requests_waiting") == 1; });
  const HttpResponse refused = server.post("/v1/completions", {{"prompt", {5}}});
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.head, HasSubstr("Retry-After: 1"));
  EXPECT_EQ(metric(server, "requests_rejected_total"), 1);
  waiting.close();
  wait_until([&] { return metric(server, "requests_waiting") == 0; });
  running.close();
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeOnce, AStreamThatWaitsHasComments) {
  Arguments arguments = endless();
  arguments.insert(arguments.end(), {"--max-sequences", "1"});
  TestServer server(arguments);
  HttpClient running(server.port()), waiting(server.port());
  running.send(endless_request(false));
  wait_until([&] { return metric(server, "requests_running") == 1; });
  const Json body = {
      {"prompt", {5}}, {"max_tokens", 2}, {"ignore_eos", true}, {"stream", true}, {"sse_ping_interval", 1}};
  waiting.send(TestServer::post_text("/v1/completions", body.dump()));
  EXPECT_THAT(waiting.receive("\n\n"), HasSubstr("\r\n: keep-alive\n\n"));
  running.close();
  EXPECT_THAT(waiting.receive("0\r\n\r\n"), HasSubstr("data: [DONE]"));
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeOnce, ConnectionsBeyondTheLimitWait) {
  TestServer server({"--max-connections", "1"});
  HttpClient first(server.port()), second(server.port());
  first.send(TestServer::get_text("/health"));
  EXPECT_EQ(read_response(first).status, 200);
  second.send(TestServer::get_text("/health"));
  first.close();
  EXPECT_EQ(read_response(second).status, 200);
  second.close();
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeOnce, BodiesBeyondTheMemoryWait) {
  TestServer server({"--queue-memory", "1", "--access-log", folder_ / "log"});
  HttpClient large(server.port()), small(server.port());
  std::string words((1 << 20) - 14, 'a');
  for (std::size_t i = 0; i < words.size(); i += 4) words[i] = ' ';
  const std::string body = R"({"prompt": ")" + words + "\"}";
  const std::string text = TestServer::post_text("/tokenize", body, "x-request-id: large\r\n");
  large.send(text.substr(0, text.size() - 5));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  small.send(TestServer::post_text("/tokenize", R"({"prompt": "a"})", "x-request-id: small\r\n"));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  large.send(text.substr(text.size() - 5));
  EXPECT_EQ(read_response(large).status, 200);
  EXPECT_EQ(read_response(small).status, 200);
  EXPECT_EQ(server.stop().status, 0);
  const std::string log = read_file(folder_ / "log");
  EXPECT_LT(log.find("\"large\""), log.find("\"small\"")) << log;
}

TEST_F(ServeOnce, KeysAndOrigins) {
  write_file(folder_ / "keys", "first\nsecond\n");
  TestServer server({"--api-key-file", folder_ / "keys", "--cors", "https://app.example"});
  const std::string key = "Authorization: Bearer second\r\n", origin = "Origin: https://app.example\r\n";
  EXPECT_EQ(server.get("/health").status, 200);
  const HttpResponse refused = server.get("/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_THAT(refused.head, HasSubstr("WWW-Authenticate: Bearer"));
  EXPECT_EQ(server.get("/v1/models", key).status, 200);
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}}, key + origin).status, 200);
  const HttpResponse preflight =
      server.exchange("OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\n" + origin +
                      "Access-Control-Request-Headers: authorization,x-stainless-os\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_THAT(preflight.head, HasSubstr("Access-Control-Allow-Origin: https://app.example"));
  EXPECT_THAT(preflight.head, HasSubstr("Access-Control-Allow-Headers: authorization,x-stainless-os\r\n"));
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeOnce, AChatHasTheAnswerOfTheChatCommand) {
  const std::string model = folder_ / "model";
  std::filesystem::copy(source_dir() + "/models/default", model);
  write_file(model + "/chat_template.jinja",
             "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
             "{% if add_generation_prompt %}assistant:{% endif %}");
  TestServer server({model});
  const Json messages =
      Json::parse(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])");
  const HttpResponse response =
      server.post("/v1/chat/completions",
                  {{"messages", messages}, {"temperature", 0}, {"max_tokens", 12}, {"vitrine", Json::object()}});
  ASSERT_EQ(response.status, 200) << response.body;
  write_file(folder_ / "messages.json", messages.dump());
  const Json expected =
      json_of({"chat", model, "--messages", folder_ / "messages.json", "--greedy", "--max-tokens", "12"});
  const Json choice = response.json()["choices"][0];
  EXPECT_EQ(choice["message"]["content"], expected["message"]["content"]);
  EXPECT_EQ(choice["vitrine"]["ids"], expected["ids"]);
  EXPECT_EQ(choice["vitrine"]["prompt_ids"], expected["prompt_ids"]);
  EXPECT_EQ(server.post("/apply-template", {{"messages", messages}}).json()["prompt"],
            "system: Be brief.\nuser: Hi\nassistant:");
  EXPECT_THAT(server.get("/tokenizer_info").json()["chat_template"].get<std::string>(), HasSubstr("{% for m in"));
  EXPECT_EQ(server.stop().status, 0);

  TestServer other({"--template", model + "/chat_template.jinja"});
  EXPECT_EQ(other.post("/apply-template", {{"messages", messages}}).json()["prompt"],
            "system: Be brief.\nuser: Hi\nassistant:");
  EXPECT_EQ(other.stop().status, 0);
}

TEST_F(ServeOnce, WrongOptions) {
  expect_error({"serve", "--port", "0", "--template", folder_ / "none"}, {"none"});
  write_file(folder_ / "broken.jinja", "{% for m in");
  expect_error({"serve", "--port", "0", "--template", folder_ / "broken.jinja"}, {"[template]", "line 1"});
  expect_error({"serve", "--port", "0", "--cors", "localhost:5174"}, {"--cors", "http://localhost:5173"});
  expect_error({"serve", "--host", "0.0.0.0", "--port", "0"}, {"--host", "0.0.0.0", "--api-key-file"});
  expect_error({"serve", "--host", "192.0.2.1", "--port", "0"}, {"--host"}, {.environment = {"VITRINE_API_KEY=k"}});
  expect_error({"serve", "--port", "0", "--api-key-file", folder_ / "none"}, {"none"});
  expect_error({"serve", folder_ / "none", "--port", "0"}, {"none"});
  expect_usage_error({"serve", "--port", "70000"}, {"--port"});
  TestServer server({"--name", "one"});
  expect_error({"serve", "--port", std::to_string(server.port())}, {"--host", std::to_string(server.port())});
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
