// Which models are in memory: within its size, by need, and never without those who use them.
#include "serve/model_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "base/error.h"
#include "serve/loaded_golden.h"
#include "serve/model_choice.h"
#include "serve/routes.h"

namespace vitrine::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Models of 100 bytes, which all are the same golden model.
class Registry : public LoopTest {
 protected:
  ~Registry() override {
    registry_.reset();
    end();
  }
  ModelEntry source(const std::string& name, std::int64_t bytes = 100) {
    ModelEntry source{.name = name, .summary = {.bytes = bytes}};
    source.load = [this, name] {
      while (is_held_) std::this_thread::sleep_for(1ms);
      if (name == "broken" && is_broken_) throw BadCheckpoint(name, "is broken");
      return std::make_unique<LoadedGolden>("gemma2", pool_, loop_);
    };
    return source;
  }
  void open(std::vector<ModelEntry> sources, RegistryConfig config = {.memory = 250}) {
    config.ttl = ttl_;
    registry_.emplace(std::move(sources), config, loop_);
    begin();
  }
  std::shared_ptr<ModelRegistry::Wish> wish(const std::string& name, std::size_t client = 0) {
    return registry_->wish(*registry_->find(name), client, [] {});
  }
  ModelRegistry::Use take(ModelRegistry::Wish& wish) {
    const auto deadline = ServerClock::now() + 60s * kSlowdown;
    while (ServerClock::now() < deadline) {
      if (auto use = wish.take()) return std::move(*use);
      std::this_thread::sleep_for(1ms);
    }
    throw std::runtime_error("the wish is not granted");
  }
  ModelRegistry::Use use(const std::string& name) { return take(*wish(name)); }
  void expect_refusal(const std::string& name, const std::string& code, const std::vector<std::string>& parts) {
    try {
      use(name);
      ADD_FAILURE() << "expected an error";
    } catch (const RequestError& e) {
      EXPECT_EQ(e.kind().code, code);
      for (const std::string& part : parts) EXPECT_THAT(e.what(), HasSubstr(part));
    }
  }
  ModelState state(const std::string& name) { return registry_->status(*registry_->find(name)).state; }
  void wait_for(const std::string& name, ModelState wanted) {
    const auto deadline = ServerClock::now() + 60s * kSlowdown;
    while (state(name) != wanted && ServerClock::now() < deadline) std::this_thread::sleep_for(1ms);
    ASSERT_EQ(state(name), wanted) << name;
  }

  std::chrono::duration<double> ttl_ = 1h;
  std::atomic<bool> is_broken_ = true;
  std::atomic<bool> is_held_ = false;
  std::optional<ModelRegistry> registry_;
};

TEST_F(Registry, LoadsWhatIsAskedForAndUnloadsWhatHasNotBeenForLongest) {
  open({source("a"), source("b"), source("c")});
  EXPECT_EQ(state("a"), ModelState::unloaded);
  use("a");
  use("b");
  use("a");
  use("c");
  EXPECT_EQ(state("a"), ModelState::loaded);
  EXPECT_EQ(state("b"), ModelState::unloaded);
  EXPECT_EQ(state("c"), ModelState::loaded);
  const ModelStatus status = registry_->status(*registry_->find("b"));
  EXPECT_EQ(status.n_loads, 1);
  EXPECT_EQ(status.n_unloads, 1);
}

TEST_F(Registry, AModelInUseNeverLeaves) {
  open({source("a"), source("b"), source("c")}, {.memory = 250, .patience = 10ms});
  std::optional first(use("a"));
  std::optional second(use("b"));
  const auto third = wish("c");
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(third->take());
  EXPECT_EQ(state("a"), ModelState::loaded);
  EXPECT_EQ(state("b"), ModelState::loaded);
  const auto again = wish("a");  // "a" is to leave, so nobody else begins to use it
  EXPECT_FALSE(again->take());
  first.reset();
  take(*third);
  second.reset();
  take(*again);
}

TEST_F(Registry, WorkOfALoadedModelIsDone) {
  open({source("a"), source("b")});
  const ModelRegistry::Use used = use("b");
  const auto& model = dynamic_cast<const LoadedGolden&>(used.model());
  const GenerateRequest request = golden_request(model.model(), 5, 8);
  const auto job = golden_job(request);
  used.model().scheduler()->submit(job);
  EXPECT_EQ(result_of(*job).ids, ids_alone(model.model(), request));
}

TEST_F(Registry, WhatCannotFitIsRefusedWithBothNumbers) {
  ModelEntry stays = source("stays");
  stays.ttl = 0s;
  open({source("large", 251), stays, source("medium", 151)});
  expect_refusal("large", "model_too_large", {"251", "250"});
  use("medium");
  use("stays");
  expect_refusal("medium", "model_too_large", {"151", "150", "never leave"});
}

TEST_F(Registry, WhatCannotFitNowIsRefusedAfterAWhile) {
  open({source("a", 200), source("b", 200)}, {.memory = 250, .patience = 1h, .max_wait = 50ms});
  const ModelRegistry::Use used = use("a");
  try {
    use("b");
    ADD_FAILURE() << "expected an error";
  } catch (const RequestError& e) {
    EXPECT_EQ(e.kind().status, 503);
    EXPECT_GT(e.retry_after(), 0s);
  }
}

TEST_F(Registry, AModelThatFailsHurtsNoOther) {
  open({source("broken"), source("a")}, {.memory = 250, .retry_time = 50ms});
  expect_refusal("broken", "model_load_failed", {"broken", "is broken"});
  EXPECT_EQ(state("broken"), ModelState::failed);
  EXPECT_THAT(registry_->status(*registry_->find("broken")).error, HasSubstr("is broken"));
  use("a");
  is_broken_ = false;
  std::this_thread::sleep_for(60ms);
  use("broken");
  EXPECT_EQ(state("broken"), ModelState::loaded);
}

/// While the files of a model are fetched, others are loaded, and those who wait may leave.
TEST_F(Registry, FilesAreFetchedWhileOthersAreLoaded) {
  std::atomic<bool> is_fetching = false, fails = true;
  std::atomic<int> n_fetched = 0;
  ModelEntry far = source("far", 0);
  far.error = "the hub cannot be reached";
  far.prepare = [&]() -> ModelSummary {
    is_fetching = true;
    while (is_held_) std::this_thread::sleep_for(1ms);
    if (fails) throw BadInput("hf:o/n", "not found");
    ++n_fetched;
    return {.bytes = 100, .draft_bytes = 50};
  };
  far.load = [this] { return std::make_unique<LoadedGolden>("gemma2", pool_, loop_); };
  ModelEntry a = source("a");
  a.load = far.load;
  is_held_ = true;
  open({far, a}, {.memory = 200, .max_wait = 100ms, .retry_time = 0s});
  {
    const auto first = wish("far");
    while (!is_fetching) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(state("far"), ModelState::loading);
    use("a");
    expect_refusal("far", "model_no_space", {"still being fetched"});
  }
  is_held_ = false;
  expect_refusal("far", "model_load_failed", {"far cannot be loaded", "not found"});
  fails = false;
  use("far");
  EXPECT_EQ(n_fetched, 1);
  EXPECT_EQ(registry_->status(*registry_->find("far")).summary.bytes, 100);
  EXPECT_EQ(registry_->status(*registry_->find("far")).error, "");
  EXPECT_EQ(state("a"), ModelState::unloaded) << "the draft needs memory, too";
  registry_.reset();
}

TEST_F(Registry, APreloadThatFailsIsTriedAgain) {
  ModelEntry early = source("broken");
  early.preloads = true;
  std::vector<std::string> lines;
  open({early}, {.memory = 250, .retry_time = 10ms, .report = [&](const std::string& line) { lines.push_back(line); }});
  wait_for("broken", ModelState::failed);
  EXPECT_FALSE(registry_->is_ready());
  is_broken_ = false;
  wait_for("broken", ModelState::loaded);
  EXPECT_TRUE(registry_->is_ready());
  registry_.reset();
  EXPECT_THAT(lines.front(), HasSubstr("broken cannot be loaded"));
  EXPECT_THAT(lines, testing::Contains(HasSubstr("broken is in memory, 100 bytes")));
  EXPECT_THAT(lines.back(), HasSubstr("broken has left the memory"));
}

TEST_F(Registry, IdleModelsLeaveAfterTheirTime) {
  ttl_ = 20ms;
  ModelEntry stays = source("stays");
  stays.ttl = 0s;
  open({source("a"), stays});
  {
    const ModelRegistry::Use used = use("a");
    use("stays");
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(state("a"), ModelState::loaded);
  }
  wait_for("a", ModelState::unloaded);
  EXPECT_EQ(state("stays"), ModelState::loaded);
}

TEST_F(Registry, ReadyMeansThatWhatIsPreloadedIsThere) {
  is_held_ = true;
  ModelEntry early = source("early");
  early.preloads = true;
  open({early, source("a")});
  EXPECT_FALSE(registry_->is_ready());
  is_held_ = false;
  wait_for("early", ModelState::loaded);
  EXPECT_TRUE(registry_->is_ready());
  EXPECT_EQ(state("a"), ModelState::unloaded);
}

TEST_F(Registry, ModelsLeaveByRequestOnceNobodyUsesThem) {
  open({source("a")});
  EXPECT_FALSE(registry_->unload(*registry_->find("a")));
  {
    const ModelRegistry::Use used = use("a");
    EXPECT_TRUE(registry_->unload(*registry_->find("a")));
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(state("a"), ModelState::loaded);
  }
  wait_for("a", ModelState::unloaded);
}

TEST_F(Registry, WishesThatNobodyWaitsForAreForgotten) {
  is_held_ = true;
  open({source("a"), source("b")}, {.memory = 250, .max_queue = 2});
  const auto first = wish("a", 1);
  wish("b", 1);
  const auto third = wish("b", 1);
  EXPECT_THROW(wish("a", 1), RequestError);
  EXPECT_NO_THROW(wish("a", 2));
  is_held_ = false;
  take(*first);
  take(*third);
}

TEST_F(Registry, NamesAreUnique) {
  ModelEntry first = source("a"), other = source("b");
  first.adapters = {"x"};
  other.where = "models.toml:7";
  const auto expect_error = [&](std::vector<std::string> aliases, const std::string& part) {
    other.aliases = std::move(aliases);
    try {
      open({first, other});
      ADD_FAILURE() << "expected an error";
    } catch (const BadInput& e) {
      EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("models.toml:7"), HasSubstr(part)));
    }
  };
  expect_error({"gpt", "a"}, "the models a and b have the name \"a\"");
  expect_error({"gpt", "gpt"}, "the model b has the name \"gpt\" twice");
  expect_error({"a:x"}, "the name \"a:x\" is that of the adapter x of the model a");
  other.aliases = {"gpt", "a:y"};
  open({source("a"), other});
  EXPECT_EQ(registry_->find("gpt")->name, "b");
  EXPECT_EQ(registry_->find("")->name, "a");
  EXPECT_EQ(registry_->find("c"), nullptr);
}

TEST_F(Registry, PreloadedModelsMustFit) {
  std::vector<ModelEntry> sources = {source("a", 200), source("b", 100)};
  for (ModelEntry& source : sources) source.preloads = true;
  try {
    open(std::move(sources));
    ADD_FAILURE() << "expected an error";
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("300"), HasSubstr("250")));
  }
}

/// What clients see of models, in memory or not.
TEST_F(Registry, RoutesDescribeModels) {
  ModelEntry first = source("a"), second = source("b");
  first.aliases = {"alias"};
  first.adapters = {"x"};
  first.summary = {.max_seq_len = 64, .n_parameters = 10, .bytes = 100, .quantization = "bf16"};
  second.error = "cannot be read";
  open({first, second});
  const auto reply = [&](const std::string& path, const std::string& body = "") {
    const Route& route = *find_route(path);
    return std::get<Route::Listing>(route.handler)(*registry_, {body, path.substr(route.path.size()), "1", 0, {}});
  };
  const Json list = reply("/v1/models")["data"];
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0], Json::parse(R"({"id": "a", "object": "model", "created": 0, "owned_by": "vitrine",
      "aliases": ["alias"], "state": "unloaded", "parent": null, "max_model_len": 64, "parameters": 10, "bytes": 100,
      "quantization": "bf16", "error": null})"));
  EXPECT_EQ(list[1], reply("/v1/models/alias"));
  EXPECT_EQ(list[2], reply("/v1/models/a:x"));
  EXPECT_EQ(list[2]["parent"], "a");
  EXPECT_EQ(list[3]["error"], "cannot be read");
  EXPECT_THROW(reply("/v1/models/c"), RequestError);
  EXPECT_THROW(reply("/v1/models/b:x"), RequestError);
  const Json tags = reply("/api/tags")["models"];
  ASSERT_EQ(tags.size(), 4U);
  EXPECT_EQ(tags[1]["name"], "alias");
  EXPECT_EQ(tags[1]["details"]["quantization_level"], "BF16");
  EXPECT_EQ(tags[2]["name"], "a:x");
  EXPECT_EQ(tags[2]["details"]["parent_model"], "a");
  EXPECT_TRUE(reply("/api/ps")["models"].empty());
  use("a");
  EXPECT_EQ(reply("/v1/models/a")["state"], "loaded");
  EXPECT_EQ(reply("/api/ps")["models"].size(), 1U);
  reply("/v1/models/unload", R"({"model": "alias"})");
  wait_for("a", ModelState::unloaded);
  EXPECT_THROW(reply("/v1/models/unload", R"({"model": "a:x"})"), RequestError);
  EXPECT_THROW(reply("/v1/models/unload", R"({"model": "c"})"), RequestError);
  EXPECT_EQ(&asked_model(*registry_, R"({"model": "alias:x"})"), registry_->find("a"));
  EXPECT_EQ(&asked_model(*registry_, R"({"name": "b:latest"})"), registry_->find("b"));
  EXPECT_THROW(asked_model(*registry_, R"({"model": "b:y"})"), RequestError) << "b is not loaded for it";
  EXPECT_EQ(&asked_model(*registry_, R"({"prompt": "x"})"), registry_->find("a"));
  EXPECT_THROW(asked_model(*registry_, R"({"model": "c"})"), RequestError);
  const HttpReply metrics = std::get<Route::Report>(find_route("/metrics")->handler)({false, false, &*registry_});
  EXPECT_THAT(metrics.body, HasSubstr("vitrine_model_unloads_total{model=\"a\"} 1\n"));
}

/// Three models, memory for two, six clients: everybody is served, and never more than two are in memory.
TEST_F(Registry, ClientsOfMoreModelsThanFitAreAllServed) {
  open({source("a"), source("b"), source("c")}, {.memory = 250, .patience = 20ms});
  std::atomic<int> n_served = 0, n_most = 0;
  std::vector<std::thread> clients;
  for (std::size_t client = 0; client < 6; ++client) {
    clients.emplace_back([&, client] {
      for (std::size_t i = 0; i < 10; ++i) {
        const ModelRegistry::Use used = use(std::string(1, "abc"[(client + i * (1 + client % 2)) % 3]));
        const auto& model = dynamic_cast<const LoadedGolden&>(used.model());
        const GenerateRequest request = golden_request(model.model(), client * 10 + i, 3);
        const auto job = golden_job(request, client);
        used.model().scheduler()->submit(job);
        n_served += result_of(*job).ids.size() == 3;
        int n_loaded = 0;
        for (const ModelStatus& status : registry_->list()) n_loaded += status.state == ModelState::loaded;
        n_most = std::max(n_most.load(), n_loaded);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(n_served, 60);
  EXPECT_LE(n_most, 2);
}

}  // namespace
}  // namespace vitrine::test
