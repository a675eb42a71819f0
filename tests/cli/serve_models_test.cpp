// vitrine serve --models: several models, which are loaded when requests ask for them.
#include <filesystem>

#include "cli/http_client.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class ServeModels : public testing::Test {
 protected:
  ServeModels() {
    std::filesystem::create_directories(folder_ / "all/broken");
    const std::string shipped = source_dir() + "/models/default";
    for (const char* name : {"one", "two"})
      std::filesystem::copy(shipped, folder_ / ("all/" + std::string(name)), kAll);
    std::ofstream(folder_ / "all/broken/config.json") << R"({"model_type": "nothing_of_this_name"})";
  }
  std::string write(const std::string& text) const {
    std::ofstream(folder_ / "models.toml") << text;
    return folder_ / "models.toml";
  }
  Arguments with(const std::string& models, const Arguments& more = {}) const {
    Arguments all = {"--models", models, "--access-log", folder_ / "log"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Json request(const std::string& model) {
    return {{"model", model}, {"prompt", "Once upon a time"}, {"max_tokens", 8}, {"seed", 5}, {"temperature", 0.8}};
  }
  static Json entry(const TestServer& server, const std::string& id) { return server.get("/v1/models/" + id).json(); }
  void expect_refusal(const std::string& list, const std::string& line, const std::string& part) const {
    expect_error({"serve", "--port", "0", "--models", write(list)}, {"models.toml:" + line + "]", part});
  }

  static constexpr auto kAll = std::filesystem::copy_options::recursive;
  const TempFolder folder_;
};

TEST_F(ServeModels, FoldersAreModelsThatRequestsLoad) {
  TestServer server(with(folder_ / "all"));
  EXPECT_EQ(server.first_line()["models"], Json::parse(R"(["broken", "one", "two"])"));
  EXPECT_EQ(server.get("/health").status, 200) << "nothing is preloaded";
  EXPECT_EQ(entry(server, "one")["state"], "unloaded");
  EXPECT_GT(entry(server, "one")["bytes"], 0);
  EXPECT_THAT(entry(server, "broken")["error"].get<std::string>(), HasSubstr("nothing_of_this_name"));
  const Json alone = json_of({"generate", source_dir() + "/models/default", "Once upon a time", "--max-tokens", "8",
                              "--seed", "5", "--temperature", "0.8", "--top-k", "0", "--top-p", "1"});
  for (const char* name : {"one", "two", "one"}) {
    const Json reply = server.post("/v1/completions", request(name)).json();
    EXPECT_EQ(reply["choices"][0]["text"], alone["text"]) << name;
    EXPECT_EQ(reply["model"], name);
  }
  EXPECT_EQ(entry(server, "two")["state"], "loaded");
  const HttpResponse failed = server.post("/v1/completions", request("broken"));
  EXPECT_EQ(failed.status, 503);
  EXPECT_EQ(failed.json()["error"]["code"], "model_load_failed");
  EXPECT_THAT(failed.json()["error"]["message"].get<std::string>(), HasSubstr("nothing_of_this_name"));
  EXPECT_EQ(entry(server, "broken")["state"], "failed");
  EXPECT_EQ(server.post("/v1/completions", request("three")).status, 404);
  EXPECT_THAT(server.get("/metrics").body, HasSubstr("vitrine_requests_total{model=\"one\"} 2\n"));
  EXPECT_THAT(read_file(folder_ / "log"), HasSubstr("\"model\":\"two\""));
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeModels, AListHasOptionsOfEachModel) {
  const std::string list = write(R"(
memory = "1G"
ttl = "1h"
[models.first]
path = "all/one"
aliases = ["gpt"]
preload = true
[models.greedy]
path = "all/two"
kv = "int8"
max_sequences = 2
defaults = {temperature = 0}
)");
  TestServer server(with(list));
  while (server.get("/health").status != 200) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(entry(server, "first")["state"], "loaded");
  EXPECT_EQ(entry(server, "gpt")["aliases"], Json::parse(R"(["gpt"])"));
  EXPECT_EQ(server.post("/v1/completions", request("gpt")).json()["model"], "gpt");
  Json plain = request("greedy");
  plain.erase("temperature");
  const Json alone = json_of({"generate", source_dir() + "/models/default", "Once upon a time", "--max-tokens", "8",
                              "--greedy", "--kv", "int8"});
  EXPECT_EQ(server.post("/v1/completions", plain).json()["choices"][0]["text"], alone["text"]);
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeModels, AdministratorsLoadAndUnload) {
  std::ofstream(folder_ / "keys") << "boss\n";
  TestServer server(with(folder_ / "all", {"--admin-key-file", folder_ / "keys"}));
  const std::string key = "Authorization: Bearer boss\r\n";
  const Json one = {{"model", "one"}};
  EXPECT_EQ(server.post("/v1/models/load", one, "Authorization: Bearer other\r\n").status, 403);
  EXPECT_EQ(server.post("/v1/models/load", one, key).json()["state"], "loaded");
  EXPECT_EQ(entry(server, "one")["state"], "loaded");
  EXPECT_EQ(server.post("/v1/models/unload", one, key).status, 200);
  for (int i = 0; i < 1000 && entry(server, "one")["state"] != "unloaded"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(entry(server, "one")["state"], "unloaded");
  EXPECT_EQ(server.stop().status, 0);
  TestServer without_keys(with(folder_ / "all"));
  EXPECT_EQ(without_keys.post("/v1/models/load", one).status, 404);
  EXPECT_EQ(without_keys.stop().status, 0);
}

TEST_F(ServeModels, WhatCannotFitIsRefused) {
  TestServer server(with(write("memory = 1000\n[models.one]\npath = \"all/one\"\n")));
  const HttpResponse refused = server.post("/v1/completions", request("one"));
  EXPECT_EQ(refused.status, 400);
  const std::string message = refused.json()["error"]["message"];
  EXPECT_THAT(message, HasSubstr("1000"));
  EXPECT_THAT(message, HasSubstr(entry(server, "one")["bytes"].dump()));
  EXPECT_EQ(server.stop().status, 0);
}

TEST_F(ServeModels, ErrorsOfAListHaveALine) {
  expect_refusal("memory = \"12 apples\"\n[models.a]\npath = \"all/one\"\n", "1", "expected a size");
  expect_refusal("[models.a]\npath = \"all/one\"\npreloads = true\n", "3", "did you mean preload?");
  expect_refusal("[models.a]\naliases = [\"b\"]\n", "1", "the key path is missing");
  expect_refusal("[models.a]\npath = \"all/one\"\nttl = \"soon\"\n", "3", "expected a time");
  expect_refusal("[models.a]\npath = \"all/one\"\ndefaults = {temprature = 1}\n", "3", "did you mean temperature?");
  expect_refusal("[models.a]\npath = \"all/one\"\n[models.a.adapters]\nx = {scale = 1}\n", "4",
                 "the key path is missing");
  expect_refusal("[models.a]\npath = 1\n", "2", "path: expected");
  expect_refusal("[models.a]\npath = \"all/one\"\npreload = \"yes\"\n", "3", "preload: expected");
  expect_refusal("[models.a]\npath = \"all/one\"\n[models.a]\npath = \"all/two\"\n", "3", "models.a");
  expect_refusal("[models.a]\npath = \"all/one\"\n[models.b]\npath = \"all/two\"\naliases = [\"a\"]\n", "3",
                 "the models a and b have the name \"a\"");
  expect_refusal(
      "[models.a]\npath = \"all/one\"\n[models.a.adapters]\nx = \"x\"\n[models.\"a:x\"]\npath = \"all/two\"\n", "5",
      "the adapter x of the model a");
  expect_error({"serve", "--port", "0", "--models", folder_ / "nowhere"}, {"nowhere"});
  std::filesystem::create_directories(folder_ / "empty/inner");
  expect_error({"serve", "--port", "0", "--models", folder_ / "empty"}, {"empty", "found none"});
}

}  // namespace
}  // namespace vitrine::test
