// vitrine pull and models, and names of models on a hub in place of paths.
#include <random>

#include "cli/program.h"
#include "hub/faulty_hub.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Hub : public testing::Test {
 protected:
  /// Adds the files of a folder to the repository o/n.
  void add(const std::string& folder) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) {
        hub_.add(entry.path().lexically_relative(folder).string(), read_file(entry.path().string()));
      }
    }
  }
  static std::string default_model() { return VITRINE_SOURCE_DIR "/models/default"; }
  static std::string noise(std::size_t size) {
    std::mt19937_64 random(size);
    std::string text(size, '\0');
    for (std::size_t i = 0; i + 8 <= size; i += 8) {
      const std::uint64_t number = random();
      std::memcpy(text.data() + i, &number, 8);
    }
    return text;
  }

  /// What a command prints that may fetch something, which it reports on stderr.
  static std::string fetching(const Arguments& arguments) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }
  static Json fetching_json(Arguments arguments) {
    arguments.push_back("--json");
    return Json::parse(fetching(arguments), nullptr, false);
  }

  TempFolder folder_;
  FaultyHub hub_{folder_ / "hub"};
};

TEST_F(Hub, CommandsOnANameDoWhatTheyDoOnTheFiles) {
  add(default_model());
  for (const Arguments& command :
       std::vector<Arguments>{{"generate", "", "Once upon", "--max-tokens", "8", "--seed", "1"},
                              {"tokenize", "", "Once upon"},
                              {"predict", "", "Once upon"},
                              {"logits", "", "--ids", "1,2,3"},
                              {"generate", default_model(), "Once", "--tokenizer", "", "--seed", "2"},
                              {"template", "", "--messages", "-"}}) {
    Arguments named = command, plain = command;
    std::ranges::replace(named, "", "hf:o/n");
    std::ranges::replace(plain, "", default_model());
    const Launch launch{.input = R"([{"role": "user", "content": "hi"}])"};
    const Outcome ours = run_program(named, launch), theirs = run_program(plain, launch);
    EXPECT_EQ(ours.status, theirs.status) << command[0] << ": " << ours.err;
    EXPECT_EQ(ours.out, theirs.out) << command[0];
  }
  Json info = json_of({"info", "hf:o/n", "--offline"}), local = json_of({"info", default_model()});
  for (Json* const object : {&info, &local}) {
    for (const char* key : {"name", "remote", "fit", "unsupported"}) object->erase(key);
  }
  EXPECT_TRUE(info == local) << "info of a name differs from info of its files";
}

TEST_F(Hub, TokenizeFetchesNoWeights) {
  add(default_model());
  EXPECT_EQ(fetching({"tokenize", "hf:o/n", "Once"}), output_of({"tokenize", default_model(), "Once"}));
  EXPECT_EQ(hub_.count("model.safetensors", "HEAD") + hub_.count("model.safetensors"), 0);
  expect_error({"generate", "hf:o/n", "Once", "--offline"}, {"offline", "model.safetensors"});
}

TEST_F(Hub, AdaptersAreFetchedWithTheirScale) {
  output_of({"lora", "new", default_model(), folder_ / "adapter", "--seed", "1"});
  add(folder_ / "adapter");
  const Arguments run = {"generate", default_model(), "Once", "--max-tokens", "4", "--seed", "1", "--adapter"};
  const auto with = [&](const std::string& adapter) {
    Arguments all = run;
    all.push_back(adapter);
    return fetching(all);
  };
  EXPECT_EQ(with("hf:o/n=0.5"), with(folder_ / "adapter=0.5"));
  EXPECT_EQ(with("hf:o/n"), with(folder_ / "adapter"));
}

TEST_F(Hub, PullSaysWhatItHasDone) {
  hub_.add("a.Q8_0.gguf", noise(3000));
  hub_.add("a.Q4_0.gguf", noise(2000));
  const Json dry = json_of({"pull", "hf:o/n", "--dry-run"});
  EXPECT_EQ(dry["files"], Json::parse(R"([{"name": "a.Q4_0.gguf", "bytes": 2000, "cached": false}])"));
  EXPECT_FALSE(fs::exists(hub_.cache()));
  const Json first = fetching_json({"pull", "hf:o/n:q8_0", "--jobs", "2"});
  EXPECT_EQ(first["name"], "hf:o/n:q8_0");
  EXPECT_EQ(first["commit"], FaultyHub::kCommit);
  EXPECT_EQ(first["fetched_bytes"], 3000);
  EXPECT_EQ(first["bytes"], 3000);
  EXPECT_EQ(read_file(first["path"]), noise(3000));
  const Json again = json_of({"pull", "hf:o/n:Q8_0"});
  EXPECT_EQ(again["fetched_bytes"], 0);
  EXPECT_EQ(again["files"][0]["cached"], true);
  const Outcome lines = run_program({"pull", "hf:o/n"});
  EXPECT_EQ(lines.err, "vitrine: fetching a.Q4_0.gguf (2 kB)\nvitrine: fetched a.Q4_0.gguf in 0 s\n");
  expect_error({"pull", "hf:o/n:Q5_K_M"}, {"Q5_K_M", "a.Q4_0.gguf, a.Q8_0.gguf"});
  expect_error({"pull", "o/n"}, {"hf:ORG/NAME"});
  expect_usage_error({"pull"});
}

TEST_F(Hub, ATokenizerWithinWeightsComesWithoutThem) {
  const std::string file = folder_ / "m.gguf";
  output_of({"quantize", default_model(), file, "--type", "f32"});
  const std::string content = read_file(file);
  hub_.add("m.gguf", content);
  EXPECT_EQ(fetching({"tokenize", "hf:o/n", "Once upon"}), output_of({"tokenize", file, "Once upon"}));
  EXPECT_LT(hub_.sent(), static_cast<std::int64_t>(content.size() / 2));
  EXPECT_TRUE(json_of({"models"})["models"].empty());
  fetching({"pull", "hf:o/n"});
  const std::int64_t before = hub_.sent();
  EXPECT_EQ(output_of({"tokenize", "hf:o/n", "Once upon"}), output_of({"tokenize", file, "Once upon"}));
  EXPECT_LT(hub_.sent() - before, 10'000) << "the cache has the file";
}

TEST_F(Hub, ModelsAreListedAndDeleted) {
  hub_.add("a.gguf", noise(3000));
  EXPECT_THAT(output_of({"models"}), HasSubstr("no models"));
  fetching({"pull", "hf:o/n"});
  const Json list = json_of({"models"});
  EXPECT_EQ(list["cache"], hub_.cache());
  EXPECT_EQ(list["models"][0]["name"], "o/n");
  EXPECT_EQ(list["models"][0]["bytes"], 3000);
  EXPECT_EQ(list["models"][0]["revisions"][0]["refs"], Json::array({"main"}));
  expect_usage_error({"models", "--delete", "o/n"}, {"--yes"});
  expect_error({"models", "--delete", "o/m", "--yes"}, {"did you mean o/n"});
  EXPECT_THAT(output_of({"models", "--delete", "hf:o/n", "--yes"}), HasSubstr("3 kB"));
  EXPECT_TRUE(json_of({"models"})["models"].empty());
}

TEST_F(Hub, APullThatIsKilledGoesOn) {
  constexpr std::size_t kSize = std::size_t{64} << 20;
  const std::string content = noise(kSize);
  hub_.add("config.json", "{}");
  hub_.add("model.safetensors", content);
  hub_.rate = std::int64_t{8} << 20;  // two seconds in all
  std::mt19937 random(1);
  for (int i = 0; i < 6; ++i) {
    const std::int64_t enough = hub_.sent() + (std::int64_t{4} << 20) + static_cast<std::int64_t>(random() % (4 << 20));
    Program program({"pull", "hf:o/n"});
    program.wait_until([&] { return hub_.sent() > enough; });
    program.send(SIGKILL);
    EXPECT_EQ(program.finish().signal, SIGKILL);
  }
  EXPECT_GT(json_of({"models"})["models"][0]["part_bytes"], 0);
  const Json result = fetching_json({"pull", "hf:o/n"});
  EXPECT_EQ(read_file(result["path"].get<std::string>() + "/model.safetensors"), content);
  EXPECT_GT(result["resumed_bytes"], static_cast<std::int64_t>(kSize / 8));
  EXPECT_LE(static_cast<double>(hub_.sent()), 1.25 * static_cast<double>(kSize));
}

TEST_F(Hub, CtrlCLeavesThePart) {
  hub_.add("config.json", "{}");
  hub_.add("model.safetensors", noise(16 << 20));
  hub_.rate = 1 << 20;
  Program program({"generate", "hf:o/n", "Once"});
  program.wait_until([&] { return hub_.sent() > 1 << 20; });
  program.send(SIGINT);
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.status, 130);
  EXPECT_THAT(outcome.err, HasSubstr("interrupted"));
  EXPECT_GT(json_of({"models"})["models"][0]["part_bytes"], 1 << 19);
}

TEST_F(Hub, AFullDiskLeavesThePart) {
  hub_.add("config.json", "{}");
  hub_.add("model.safetensors", noise(4 << 20));
  Launch launch;
  launch.largest_file = 3 << 20;  // as a quota: writing fails
  const Outcome outcome = run_program({"pull", "hf:o/n"}, launch);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("File too large"));
  EXPECT_TRUE(fs::exists(hub_.repository() + "/blobs/" + hub_.etag("model.safetensors") + ".vitrine-part"));
  EXPECT_FALSE(fs::exists(hub_.repository() + "/blobs/" + hub_.etag("model.safetensors")));
  EXPECT_EQ(fetching_json({"pull", "hf:o/n"})["bytes"], (4 << 20) + 2);
}

TEST_F(Hub, ErrorsAreOneLineAndNameTheWayOut) {
  add(default_model());
  hub_.set("HF_TOKEN", "hf_secret");
  hub_.change = [](const HubRequest&, HubReply& reply) { reply = {403, {{"X-Error-Code", "GatedRepo"}}}; };
  expect_error({"generate", "hf:o/n", "Once"}, {"accept the terms at " + hub_.endpoint() + "/o/n"});
  expect_error({"tokenize", "hf:o/../n", "Once"}, {"hf:ORG/NAME"});
  expect_error({"generate", "hf:o/other", "Once", "--offline"}, {"offline"});
  EXPECT_FALSE(fs::exists(hub_.repository()));
}

TEST_F(Hub, InfoReadsHeadersAlone) {
  const std::string model = folder_ / "m";
  output_of(
      {"init", "gpt2", model, "--seed", "1", "--set", "n_layers=2", "--set", "vocab_size=4000", "--dtype", "bf16"});
  add(model);
  const Json remote = fetching_json({"info", "hf:o/n", "--threads", "1", "--length", "16"});
  EXPECT_LT(remote["remote"]["fetched_bytes"], 50'000);
  EXPECT_EQ(remote["remote"]["name"], "hf:o/n");
  EXPECT_EQ(remote["remote"]["cached_bytes"], 0);
  EXPECT_EQ(remote["unsupported"], Json::array());
  EXPECT_TRUE(remote["fit"]["fits"].get<bool>());
  EXPECT_FALSE(fs::exists(hub_.cache() + "/models--o--n"));
  const std::string path = fetching_json({"pull", "hf:o/n"})["path"];
  Json local = json_of({"info", path, "--length", "16"}), same = remote;
  for (const char* key : {"remote", "fit", "unsupported"}) same.erase(key);
  EXPECT_TRUE(same == local) << "info of headers differs from info of the whole files";
  const std::string text = fetching({"info", "hf:o/n", "--threads", "1"});
  EXPECT_THAT(text, HasSubstr("in the cache"));
  EXPECT_THAT(text, HasSubstr("prompt tokens/s"));
}

TEST_F(Hub, WhatCannotRunIsNamedBeforeItIsFetched) {
  const std::string model = folder_ / "m";
  output_of(
      {"init", "gpt2", model, "--seed", "1", "--set", "n_layers=2", "--set", "vocab_size=4000", "--dtype", "bf16"});
  Json config = Json::parse(read_file(model + "/config.json"));
  config["model_type"] = "gpt3";
  add(model);
  hub_.add("config.json", config.dump());
  const Outcome info = run_program({"info", "hf:o/n", "--json"});
  EXPECT_EQ(info.status, 1);
  const Json facts = Json::parse(info.out);
  EXPECT_EQ(facts["unsupported"][0]["where"], "config.json");
  EXPECT_THAT(facts["unsupported"][0]["what"].get<std::string>(), HasSubstr("model_type \"gpt3\""));
  EXPECT_EQ(facts["unsupported"][0]["nearest"], "gpt2");
  expect_error({"info", "hf:o/n"}, {"hf:o/n", "config.json", "gpt2"});
  expect_error({"pull", "hf:o/n"}, {"gpt3", "--force"});
  expect_error({"generate", "hf:o/n", "a"}, {"gpt3", "nothing was fetched"});
  EXPECT_FALSE(fs::exists(hub_.cache() + "/models--o--n/blobs"));
  fetching({"pull", "hf:o/n", "--force"});
}

TEST_F(Hub, ControlVectorsAreMadeOfANameAndFetchedWithTheirScaleAndLayers) {
  add(default_model());
  const std::string pairs = folder_ / "pairs.jsonl", file = folder_ / "c.gguf";
  write_file(pairs, R"({"positive": "She was happy", "negative": "She was sad"})");
  fetching({"control", "make", "hf:o/n", pairs, "--out", file});
  FaultyHub control{folder_ / "control"};  // another hub, which is the one in the environment now
  control.add("c.gguf", read_file(file));
  const auto with = [&](const std::string& text) {
    return fetching({"generate", default_model(), "Once", "--seed", "1", "--max-tokens", "6", "--control", text});
  };
  EXPECT_EQ(with("hf:o/n=4:1-3"), with(file + "=4:1-3"));
  EXPECT_EQ(with("hf:o/n:c.gguf:2-2"), with(file + ":2-2"));
  const Outcome info = run_program({"info", "hf:o/n", "--json"});
  EXPECT_EQ(info.status, 1);
  EXPECT_THAT(Json::parse(info.out)["unsupported"][0]["what"].get<std::string>(), HasSubstr("controlvector"));
}

TEST_F(Hub, ATensorThatIsUnknownIsNamedBeforeItIsFetched) {
  const std::string model = folder_ / "m";
  output_of({"init", "gpt2", model, "--seed", "1", "--set", "n_layers=2", "--set", "d_model=32", "--set", "n_heads=2"});
  Json config = Json::parse(read_file(model + "/config.json"));
  config["n_layer"] = 1;  // the tensors of the second layer are left
  add(model);
  hub_.add("config.json", config.dump());
  expect_error({"pull", "hf:o/n"}, {"h.1.", "--force"});
  EXPECT_FALSE(fs::exists(hub_.repository() + "/blobs/" + hub_.etag("model.safetensors")));
}

}  // namespace
}  // namespace vitrine::test
