// vitrine serve: adapters and control vectors by name, for each request its own.
#include <cstring>

#include "checkpoint/adapters/control.h"
#include "checkpoint/load.h"
#include "cli/http_client.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

const std::string kPrompt = "Once upon a time";

class ServeModifiers : public testing::Test {
 protected:
  ServeModifiers() {
    for (const char* name : {"a", "b"}) make_adapter(name);
    make_control("joy", 0.4f);
    make_control("calm", -0.7f);
  }

  static std::string model() { return source_dir() + "/models/default"; }
  std::string adapter(const std::string& name) const { return folder_ / name; }
  std::string control(const std::string& name) const { return folder_ / (name + ".gguf"); }

  /// An adapter of rank 4 whose matrices B differ by its name.
  void make_adapter(const std::string& name) const {
    output_of({"lora", "new", model(), adapter(name), "--rank", "4", "--seed", std::to_string(name[0])});
    const std::string path = adapter(name) + "/adapter_model.safetensors";
    std::string file = read_file(path);
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
    const Json header = Json::parse(file.substr(8, header_bytes));
    for (const auto& [tensor, about] : header.items()) {
      if (tensor.find("lora_B") == tensor.npos) continue;
      const std::uint64_t begin = about["data_offsets"][0], end = about["data_offsets"][1];
      ASSERT_EQ(about["dtype"], "F32");
      for (std::uint64_t at = begin; at < end; at += 4) {
        const float value = 0.2f * std::sin(static_cast<float>(at * static_cast<std::uint64_t>(name[0])));
        std::memcpy(file.data() + 8 + header_bytes + at, &value, 4);
      }
    }
    std::ofstream(path, std::ios::binary) << file;
  }
  void make_control(const std::string& name, float size) const {
    const Checkpoint checkpoint = load_checkpoint(model());
    const ModelConfig& config = checkpoint.model->config();
    ControlVector made;
    for (std::size_t layer = 1; layer < config.n_layers(); ++layer) {
      for (std::int64_t i = 0; i < config.d_model; ++i) {
        made.directions[static_cast<int>(layer)].push_back(size * std::cos(static_cast<float>(i * 3) + size));
      }
    }
    write_control(control(name), made, config);
  }
  Arguments named(Arguments more = {}) const {
    Arguments all = {model(),
                     "--adapter",
                     "a=" + adapter("a"),
                     "--adapter",
                     "b=" + adapter("b") + "=0.5",
                     "--control",
                     "joy=" + control("joy"),
                     "--control",
                     "calm=" + control("calm") + "=0.3:1-1",
                     "--access-log",
                     folder_ / "log"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// The text of `vitrine generate` with these options.
  std::string generated(const Arguments& options) const {
    Arguments all = {"generate",      model(), kPrompt,   "--max-tokens", "12",      "--seed", "5",
                     "--temperature", "0.8",   "--top-k", "40",           "--top-p", "1"};
    all.insert(all.end(), options.begin(), options.end());
    return json_of(all)["text"];
  }
  static Json request(const Json& more = Json::object()) {
    Json fields = {{"prompt", kPrompt},  {"max_tokens", 12}, {"seed", 5},
                   {"temperature", 0.8}, {"top_k", 40},      {"logprobs", 2}};
    fields.update(more);
    return fields;
  }
  static std::string text_of(const Json& response) { return response["choices"][0]["text"]; }

  const TempFolder folder_;
};

TEST_F(ServeModifiers, EveryRequestHasTheTextOfGenerate) {
  const std::string a = adapter("a"), b = adapter("b"), joy = control("joy"), calm = control("calm");
  const auto vitrine = [](Json adapters, Json controls) {
    return Json{{"vitrine", {{"adapters", std::move(adapters)}, {"controls", std::move(controls)}}}};
  };
  const std::vector<std::pair<Json, Arguments>> cases = {
      {Json::object(), {}},
      {{{"model", "default:a"}}, {"--adapter", a}},
      {{{"model", "default:b"}}, {"--adapter", b + "=0.5"}},
      {vitrine({{{"name", "b"}, {"scale", -0.25}}, {{"name", "a"}}}, Json::array()),
       {"--adapter", b + "=-0.25", "--adapter", a}},
      {vitrine(Json::array(), {{{"name", "joy"}}}), {"--control", joy}},
      {vitrine(Json::array(), {{{"name", "calm"}}}), {"--control", calm + "=0.3:1-1"}},
      {vitrine(Json::array(),
               {{{"name", "calm"}, {"scale", 2}, {"layers", {2, 9}}}, {{"name", "joy"}, {"scale", 0.1}}}),
       {"--control", calm + "=2:2-9", "--control", joy + "=0.1"}},
      {{{"model", "default:a"}, {"vitrine", {{"controls", {{{"name", "joy"}}}}}}}, {"--adapter", a, "--control", joy}},
  };
  TestServer server(named({"--prefix-memory", "256"}));
  std::vector<HttpResponse> alone;
  std::set<std::string> texts;
  for (const auto& [fields, options] : cases) {
    alone.push_back(server.post("/v1/completions", request(fields)));
    ASSERT_EQ(alone.back().status, 200) << alone.back().body;
    EXPECT_EQ(text_of(alone.back().json()), generated(options)) << fields;
    EXPECT_EQ(alone.back().json()["usage"]["prompt_tokens_details"]["cached_tokens"], 0) << "other keys and values";
    texts.insert(text_of(alone.back().json()));
  }
  EXPECT_GE(texts.size(), cases.size() - 1) << "they differ";

  for (int round = 0; round < 2; ++round) {  // all in the same rounds
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (const auto& [fields, options] : cases) {
      clients.push_back(std::make_unique<HttpClient>(server.port()));
      clients.back()->send(TestServer::post_text("/v1/completions", request(fields).dump()));
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Json json = read_response(*clients[i]).json();
      EXPECT_EQ(json["choices"], alone[i].json()["choices"]) << cases[i].first;
      EXPECT_GT(json["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    }
  }
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeModifiers, ThoseWithoutANameAreOfAllRequests) {
  TestServer server({model(), "--adapter", adapter("a"), "--control", control("joy") + "=0.5", "--adapter",
                     "b=" + adapter("b"), "--access-log", folder_ / "log"});
  const Arguments of_all = {"--adapter", adapter("a"), "--control", control("joy") + "=0.5"};
  EXPECT_EQ(text_of(server.post("/v1/completions", request()).json()), generated(of_all));
  Arguments with_b = of_all;
  with_b.insert(with_b.end(), {"--adapter", adapter("b")});
  EXPECT_EQ(text_of(server.post("/v1/completions", request({{"model", "default:b"}})).json()), generated(with_b));
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeModifiers, NamesAreModels) {
  TestServer server(named({"--no-inspect"}));
  const Json list = server.get("/v1/models").json()["data"];
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0]["id"], "default");
  EXPECT_EQ(list[0]["parent"], Json());
  EXPECT_EQ(list[1]["id"], "default:a");
  EXPECT_EQ(list[1]["parent"], "default");
  EXPECT_EQ(server.get("/v1/models/default:b").json()["parent"], "default");
  EXPECT_EQ(server.get("/v1/models/default:c").status, 404);

  const auto refusal = [&](const Json& fields) { return server.post("/v1/completions", request(fields)); };
  HttpResponse response = refusal({{"model", "default:aa"}});
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(response.body, HasSubstr("did you mean default:a?"));
  response = refusal({{"vitrine", {{"controls", {{{"name", "joi"}}}}}}});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.json()["error"]["param"], "vitrine.controls[0].name");
  EXPECT_THAT(response.body, HasSubstr("did you mean joy?"));
  for (const Json& bad : std::vector<Json>{{{"name", "joy"}, {"layers", {2, 1}}},
                                           {{"name", "joy"}, {"layers", {1}}},
                                           {{"name", "joy"}, {"scale", "much"}},
                                           {{"name", "joy"}, {"size", 1}},
                                           {{"scale", 1}},
                                           3}) {
    EXPECT_EQ(refusal({{"vitrine", {{"controls", {bad}}}}}).status, 400) << bad;
  }
  EXPECT_EQ(refusal({{"vitrine", {{"adapters", {{{"name", "a"}}}}}}}).status, 200);
  EXPECT_EQ(refusal({{"vitrine", {{"adapters", {{{"name", "a"}}}}, {"sites", {"hook_embed"}}}}}).status, 403);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeModifiers, OtherRoutesKnowThem) {
  TestServer server(named());
  const auto vector = [&](const char* name) {
    return server.post("/v1/embeddings", {{"input", kPrompt}, {"model", name}}).json()["data"][0]["embedding"];
  };
  EXPECT_NE(vector("default:a"), vector("default"));
  EXPECT_NE(vector("default:a"), vector("default:b"));
  Json wishes = {{"input", kPrompt}, {"vitrine", {{"adapters", {{{"name", "a"}}}}}}};
  EXPECT_EQ(server.post("/v1/embeddings", wishes).json()["data"][0]["embedding"], vector("default:a"));

  const HttpResponse traced = server.post("/v1/trace", {{"prompt", kPrompt}, {"controls", {{{"name", "joy"}}}}});
  json_of({"trace", model(), kPrompt, "--control", control("joy"), "--out", folder_ / "trace.safetensors"});
  EXPECT_TRUE(traced.body == read_file(folder_ / "trace.safetensors"));
  const auto ollama = [&](const char* name) {
    return server
        .post("/api/generate", {{"model", name},
                                {"prompt", kPrompt},
                                {"raw", true},
                                {"stream", false},
                                {"options", {{"seed", 5}, {"num_predict", 8}}}})
        .json();
  };
  EXPECT_NE(ollama("default:a")["response"], ollama("default")["response"]);
  EXPECT_EQ(ollama("default:a:latest")["response"], ollama("default:a")["response"]);
  EXPECT_EQ(server.stop().status, 0);
}

class ServeAdmin : public ServeModifiers {
 protected:
  ServeAdmin() {
    std::filesystem::create_directory(folder_ / "allowed");
    std::filesystem::rename(adapter("b"), folder_ / "allowed/b");
    std::ofstream(folder_ / "keys") << "boss\n";
  }
  Arguments arguments() const {
    return {model(),         "--adapter",         "a=" + adapter("a"), "--admin-key-file", folder_ / "keys",
            "--adapter-dir", folder_ / "allowed", "--access-log",      folder_ / "log"};
  }
  static HttpResponse post(const TestServer& server, const std::string& path, const Json& body,
                           const char* key = "boss") {
    const std::string field = key[0] == '\0' ? "" : "Authorization: Bearer " + std::string(key) + "\r\n";
    return server.exchange(TestServer::post_text(path, body.dump(), field));
  }
};

TEST_F(ServeAdmin, AdaptersComeAndGo) {
  TestServer server(arguments());
  EXPECT_EQ(server.post("/v1/completions", request({{"model", "default:b"}})).status, 404);
  const Json load = {{"lora_name", "b"}, {"lora_path", folder_ / "allowed/b"}, {"model", "default"}};
  HttpResponse response = post(server, "/v1/load_lora_adapter", load);
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.json()["id"], "default:b");
  EXPECT_EQ(text_of(server.post("/v1/completions", request({{"model", "default:b"}})).json()),
            generated({"--adapter", folder_ / "allowed/b"}));
  EXPECT_EQ(post(server, "/v1/load_lora_adapter", load).status, 400) << "the name is taken";

  Json endless = request({{"model", "default:b"}, {"stream", true}, {"max_tokens", 200}, {"ignore_eos", true}});
  HttpClient client(server.port());
  client.send(TestServer::post_text("/v1/completions", endless.dump()));
  client.receive("data: ");
  EXPECT_EQ(post(server, "/v1/unload_lora_adapter", {{"lora_name", "b"}}).status, 200);
  EXPECT_EQ(server.post("/v1/completions", request({{"model", "default:b"}})).status, 404);
  EXPECT_THAT(client.receive("[DONE]"), HasSubstr("\"finish_reason\":\"length\""))
      << "one in use ends with its request";
  EXPECT_EQ(post(server, "/v1/unload_lora_adapter", {{"lora_name", "b"}}).status, 404);
  response = post(server, "/v1/load_lora_adapter", {{"lora_name", "b"}, {"lora_path", "b"}});
  EXPECT_EQ(response.status, 200) << "a path relative to the folder: " << response.body;
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeAdmin, AnotherNameOfTheSameFileHasTheSameBits) {
  TestServer server(arguments());
  for (const char* name : {"x", "y"}) {
    EXPECT_EQ(post(server, "/v1/load_lora_adapter", {{"lora_name", name}, {"lora_path", "b"}}).status, 200);
  }
  const Json x = server.post("/v1/completions", request({{"model", "default:x"}})).json();
  post(server, "/v1/unload_lora_adapter", {{"lora_name", "x"}});
  EXPECT_EQ(post(server, "/v1/load_lora_adapter", {{"lora_name", "x"}, {"lora_path", "b"}}).status, 200);
  const Json again = server.post("/v1/completions", request({{"model", "default:x"}})).json();
  EXPECT_EQ(again["choices"], x["choices"]);
  EXPECT_EQ(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0) << "another object, whatever its address";
  EXPECT_EQ(server.post("/v1/completions", request({{"model", "default:y"}})).json()["choices"], x["choices"]);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeAdmin, KeysAndPathsAreChecked) {
  std::filesystem::create_symlink(adapter("a"), folder_ / "allowed/out");
  std::filesystem::create_directory(folder_ / "allowed/mixed");
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"}) {
    std::filesystem::create_symlink(adapter("a") + "/" + file, folder_ / "allowed/mixed" + std::string("/") + file);
  }
  std::filesystem::create_symlink(folder_ / "allowed/b", folder_ / "allowed/link");
  TestServer server(arguments());
  const auto status = [&](const Json& path, const char* key = "boss") {
    return post(server, "/v1/load_lora_adapter", {{"lora_name", "n"}, {"lora_path", path}}, key).status;
  };
  EXPECT_EQ(status("b", "other"), 403);
  EXPECT_EQ(status("b", ""), 401);
  for (const std::string& path :
       {adapter("a"), std::string("../a"), std::string("out"), std::string("mixed"), std::string("nothing"),
        std::string("/etc/passwd"), std::string("."), std::string(), std::string("b\0c", 3)}) {
    EXPECT_EQ(status(path), 400) << path;
  }
  EXPECT_EQ(status(3), 400);
  std::filesystem::create_directories(folder_ / "allowed/broken");
  std::ofstream(folder_ / "allowed/broken/adapter_config.json") << "{";
  const HttpResponse broken = post(server, "/v1/load_lora_adapter", {{"lora_name", "n"}, {"lora_path", "broken"}});
  EXPECT_NE(broken.status, 200) << "a load that fails says so: " << broken.body;
  EXPECT_THAT(broken.body, HasSubstr("adapter_config.json"));
  for (const char* name : {"", "a/b", "a:b", "a b", "a"}) {
    EXPECT_EQ(post(server, "/v1/load_lora_adapter", {{"lora_name", name}, {"lora_path", "b"}}).status, 400) << name;
  }
  EXPECT_EQ(post(server, "/v1/load_lora_adapter", {{"lora_name", "n"}, {"lora_path", "b"}, {"model", "x"}}).status,
            404);
  EXPECT_EQ(status("link"), 200) << "a link that stays inside";
  EXPECT_EQ(server.stop().status, 0);

  TestServer without({model(), "--access-log", folder_ / "log"});
  EXPECT_EQ(post(without, "/v1/load_lora_adapter", {{"lora_name", "n"}, {"lora_path", "b"}}).status, 404);
  EXPECT_EQ(without.stop().status, 0);
}

TEST_F(ServeModifiers, NamesAreOfServersAlone) {
  expect_error({"generate", model(), "a", "--adapter", "x=" + adapter("a")}, {"--adapter", "names are for"});
  expect_error({"generate", model(), "a", "--control", "x=" + control("joy")}, {"--control", "names are for"});
  expect_error({"serve", model(), "--adapter", "a=" + adapter("a"), "--adapter", "a=" + adapter("b")},
               {"already an adapter \"a\""});
}

}  // namespace
}  // namespace vitrine::test
