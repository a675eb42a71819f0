// vitrine serve --models while models come, go and fail.
#include <filesystem>

#include "cli/http_client.h"
#include "hub/faulty_hub.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

class ServeModelsLoad : public testing::Test {
 protected:
  static std::string shipped() { return source_dir() + "/models/default"; }
  /// A model of its own: the shipped one with fewer bits.
  std::string quantized(const std::string& type) const {
    const std::string path = folder_ / ("all/" + type + ".gguf");
    fs::create_directories(folder_ / "all");
    output_of({"quantize", shipped(), path, "--type", type});
    return path;
  }
  std::string list(const std::string& text) const {
    std::ofstream(folder_ / "models.toml") << text;
    return folder_ / "models.toml";
  }
  Arguments with(const std::string& models, const Arguments& more = {}) const {
    Arguments all = {"--models", models, "--access-log", folder_ / "log"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Json request(const std::string& model, int seed = 5, int n_tokens = 8) {
    return {{"model", model},
            {"prompt", "Once upon a time"},
            {"max_tokens", n_tokens},
            {"seed", seed},
            {"temperature", 0.8}};
  }
  static std::string text_of(const HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    return response.status == 200 ? response.json()["choices"][0]["text"].get<std::string>() : response.body;
  }
  static std::string state(const TestServer& server, const std::string& id) {
    return server.get("/v1/models/" + id).json()["state"];
  }
  static void wait_for(const TestServer& server, const std::string& id, const std::string& wanted) {
    for (int i = 0; i < 1000 && state(server, id) != wanted; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(state(server, id), wanted) << id;
  }

  const TempFolder folder_;
};

/// Memory for two of three models: nobody is refused, and texts are those of a server of the one model.
TEST_F(ServeModelsLoad, ClientsOfMoreModelsThanFitHaveTheTextsOfEach) {
  constexpr int kClients = 6, kRequests = 8, kSeeds = 4;
  std::map<std::string, std::vector<std::string>> alone;
  std::int64_t memory = 0;
  for (const std::string type : {"q8_0", "q5_1", "q4_0"}) {
    TestServer server({quantized(type), "--access-log", folder_ / "log"});
    for (int seed = 0; seed < kSeeds; ++seed) {
      alone[type].push_back(text_of(server.post("/v1/completions", request(type, seed))));
    }
    memory += server.get("/v1/models/" + type).json()["bytes"].get<std::int64_t>();
    EXPECT_EQ(server.stop().status, 0);
  }
  EXPECT_NE(alone["q8_0"], alone["q4_0"]);
  std::string text = "memory = " + std::to_string(memory - 1) + "\n";
  for (const auto& [type, texts] : alone) text += "[models." + type + "]\npath = \"all/" + type + ".gguf\"\n";
  TestServer server(with(list(text)));
  std::atomic<int> n_right = 0;
  std::atomic<std::ptrdiff_t> most_loaded = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < kRequests; ++i) {
        const std::string type = std::vector<std::string>{"q8_0", "q5_1", "q4_0"}[(client + i * (1 + client % 2)) % 3];
        const int seed = (client + i) % kSeeds;
        n_right += text_of(server.post("/v1/completions", request(type, seed))) == alone[type][seed];
        const Json models = server.get("/v1/models").json()["data"];
        most_loaded = std::max(most_loaded.load(),
                               std::ranges::count_if(models, [](const Json& m) { return m["state"] == "loaded"; }));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(n_right, kClients * kRequests);
  EXPECT_EQ(most_loaded, 2);
  const Outcome outcome = server.stop();
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("q4_0 has left the memory"));
}

TEST_F(ServeModelsLoad, NamesOnAHubAreFetchedByTheFirstRequest) {
  FaultyHub hub(folder_ / "hub");
  for (const auto& entry : fs::directory_iterator(shipped())) {
    if (!entry.is_regular_file()) continue;  // folders of dictionaries
    hub.add(entry.path().filename().string(), read_file(entry.path().string()));
  }
  TestServer server(with(list("[models.far]\npath = \"hf:o/n\"\n[models.near]\npath = \"" + shipped() + "\"\n")));
  const Json entry = server.get("/v1/models/far").json();
  EXPECT_EQ(entry["state"], "unloaded");
  EXPECT_EQ(entry["bytes"], server.get("/v1/models/near").json()["bytes"]) << "from headers alone";
  EXPECT_LT(hub.sent(), fs::file_size(shipped() + "/model.safetensors") / 2);
  const std::string near = text_of(server.post("/v1/completions", request("near")));
  EXPECT_EQ(text_of(server.post("/v1/completions", request("far"))), near);
  const Outcome outcome = server.stop();
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("far: fetching model.safetensors (11 MB)"));
  TestServer offline(with(folder_ / "models.toml", {"--offline"}));
  EXPECT_EQ(text_of(offline.post("/v1/completions", request("far"))), near);
  EXPECT_EQ(offline.stop().status, 0);
}

TEST_F(ServeModelsLoad, AServerEndsAlthoughItFetches) {
  FaultyHub hub(folder_ / "hub");
  for (const auto& entry : fs::directory_iterator(shipped())) {
    if (!entry.is_regular_file()) continue;  // folders of dictionaries
    hub.add(entry.path().filename().string(), read_file(entry.path().string()));
  }
  TestServer server(with(list("[models.far]\npath = \"hf:o/n\"\n[models.near]\npath = \"" + shipped() + "\"\n")));
  hub.rate = 10'000;
  HttpClient waits(server.port());
  waits.send(TestServer::post_text("/v1/completions", request("far").dump()));
  wait_for(server, "far", "loading");
  HttpClient leaves(server.port());
  leaves.send(TestServer::post_text("/v1/completions", request("far").dump()));
  leaves.close();
  text_of(server.post("/v1/completions", request("near")));  // which is loaded meanwhile
  EXPECT_EQ(state(server, "far"), "loading");
  for (int i = 0; i < 500 && read_file(folder_ / "log").find("499") == std::string::npos; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_THAT(read_file(folder_ / "log"), HasSubstr("\"status\":499"));
  EXPECT_EQ(server.stop().status, 0);
  const HttpResponse refused = read_response(waits);
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("shutting down"));
}

/// Files that are broken, go, and come back.
TEST_F(ServeModelsLoad, FilesMayChangeWhileTheServerRuns) {
  const std::string path = quantized("q8_0"), bytes = read_file(path);
  fs::copy(path, folder_ / "all/other.gguf");
  fs::resize_file(path, bytes.size() / 2);
  std::ofstream(folder_ / "keys") << "boss\n";
  TestServer server(with(folder_ / "all", {"--admin-key-file", folder_ / "keys"}));
  const std::string key = "Authorization: Bearer boss\r\n";
  EXPECT_FALSE(server.get("/v1/models/q8_0").json()["error"].is_null());
  EXPECT_EQ(server.post("/v1/completions", request("q8_0")).json()["error"]["code"], "model_load_failed");
  const std::string text = text_of(server.post("/v1/completions", request("other")));
  EXPECT_EQ(server.post("/v1/models/unload", {{"model", "other"}}, key).status, 200);
  wait_for(server, "other", "unloaded");
  fs::remove(folder_ / "all/other.gguf");
  const HttpResponse gone = server.post("/v1/completions", request("other"));
  EXPECT_EQ(gone.status, 503);
  EXPECT_THAT(gone.json()["error"]["message"].get<std::string>(), HasSubstr("other.gguf"));
  EXPECT_EQ(state(server, "other"), "failed");
  EXPECT_EQ(server.stop().status, 0);
}

/// A model that is to leave does so after its streams.
TEST_F(ServeModelsLoad, StreamsEndBeforeTheirModelLeaves) {
  quantized("q8_0");
  std::ofstream(folder_ / "keys") << "boss\n";
  TestServer server(with(folder_ / "all", {"--admin-key-file", folder_ / "keys"}));
  Json streamed = request("q8_0", 5, 200);
  streamed["stream"] = streamed["ignore_eos"] = true;
  HttpClient client(server.port());
  client.send(TestServer::post_text("/v1/completions", streamed.dump()));
  wait_for(server, "q8_0", "loaded");
  EXPECT_EQ(server.post("/v1/models/unload", {{"model", "q8_0"}}, "Authorization: Bearer boss\r\n").status, 200);
  const HttpResponse whole = read_response(client);
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.events().back()["choices"][0]["finish_reason"], "length");
  wait_for(server, "q8_0", "unloaded");
  text_of(server.post("/v1/completions", request("q8_0")));  // and comes back
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeModelsLoad, AdaptersControlsAndDraftsOfAListAreThoseOfTheCommandLine) {
  output_of({"lora", "new", shipped(), folder_ / "robots", "--seed", "1"});
  quantized("q8_0");
  TestServer server(with(list("[models.big]\npath = \"" + shipped() + R"("
draft = "all/q8_0.gguf"
[models.big.adapters]
robots = {path = "robots", scale = 0.5}
[models.plain]
path = ")" + shipped() + "\"\nspeculate = \"none\"\n")));
  const Json tags = server.get("/api/tags").json()["models"];
  ASSERT_EQ(tags.size(), 3U);
  EXPECT_EQ(tags[1]["name"], "big:robots");
  EXPECT_EQ(server.get("/v1/models/big:robots").json()["parent"], "big");
  EXPECT_EQ(server.post("/v1/completions", request("big:pirates")).status, 404);
  EXPECT_EQ(state(server, "big"), "unloaded") << "for an adapter that it does not have";
  const std::string plain = text_of(server.post("/v1/completions", request("plain", 5, 40)));
  EXPECT_EQ(text_of(server.post("/v1/completions", request("big", 5, 40))), plain);
  EXPECT_EQ(text_of(server.post("/v1/completions", request("big:robots", 5, 40))), plain) << "B is zero";
  const std::string metrics = server.get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("vitrine_draft_tokens_accepted_total{model=\"big\",method=\"draft\"} "));
  EXPECT_THAT(metrics, testing::Not(HasSubstr("vitrine_draft_tokens_total{model=\"plain\"")));
  EXPECT_EQ(server.post("/api/show", {{"model", "big:robots"}}).status, 200);
  EXPECT_EQ(server.get("/api/ps").json()["models"].size(), 2U);
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace vitrine::test
