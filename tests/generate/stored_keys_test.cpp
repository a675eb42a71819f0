// Names of stored blocks: nothing is shared that differs in anything but later ids; wrong blocks are computed again.
#include "checkpoint/adapters/create.h"
#include "generate/stored_runs.h"
#include "support/controls.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

class StoredKeys : public Stored {
 protected:
  /// The tokens that a request takes from a store that another request has filled.
  std::int64_t hits(const Checkpoint& first, const Checkpoint& second, GenerateRequest a, GenerateRequest b) {
    const std::string path = temp_ / std::to_string(++n_stores_);
    const GenerateContext c = context(second);
    const std::string expected = run(c, {&b, 1})[0];
    {
      GenerateContext own = context(first);
      Opened opened(path, first, own);
      own.store = &opened.of_model;
      run(own, {&a, 1});
    }
    GenerateContext own = c;
    Opened opened(path, second, own);
    own.store = &opened.of_model;
    EXPECT_EQ(run(own, {&b, 1})[0], expected);
    return opened.of_model.hit_tokens();
  }
};

TEST_F(StoredKeys, WeightsAreNamedByTheirContent) {
  const Checkpoint model = long_model("llama_mha", temp_ / "m");
  fs::copy(temp_ / "m", temp_ / "copy", fs::copy_options::recursive);
  const Checkpoint copy = load_checkpoint(temp_ / "copy");
  const GenerateRequest r = requests_for(*model.model, 1, 3)[0];
  EXPECT_GT(hits(model, copy, r, r), 60) << "the same weights in another folder";
  std::string weights = read_file(temp_ / "copy" + "/model.safetensors");
  weights[weights.size() - 2] = static_cast<char>(weights[weights.size() - 2] ^ 1);
  write_file(temp_ / "copy" + "/model.safetensors", weights);
  EXPECT_EQ(hits(model, load_checkpoint(temp_ / "copy"), r, r), 0) << "one bit of a weight differs";
  std::string config = read_file(temp_ / "m" + "/config.json");
  const std::size_t at = config.find("rms_norm_eps");
  ASSERT_NE(at, config.npos);
  Json other = Json::parse(config);
  other["rms_norm_eps"] = 2e-5;
  fs::remove_all(temp_ / "copy");
  fs::copy(temp_ / "m", temp_ / "copy", fs::copy_options::recursive);
  write_file(temp_ / "copy" + "/config.json", other.dump());
  EXPECT_EQ(hits(model, load_checkpoint(temp_ / "copy"), r, r), 0) << "one number of the config differs";
}

TEST_F(StoredKeys, OwnersDoNotShare) {
  const Checkpoint model = long_model("llama_mha", temp_ / "m");
  GenerateRequest a = requests_for(*model.model, 1, 3)[0], b = a;
  EXPECT_GT(hits(model, model, a, b), 60);
  b.owner = "b";
  EXPECT_EQ(hits(model, model, a, b), 0);
  a.owner = "b";
  EXPECT_GT(hits(model, model, a, b), 60);
}

TEST_F(StoredKeys, OnlyCommonIdsAreShared) {
  const Checkpoint model = long_model("llama_mha", temp_ / "m");
  GenerateRequest a = requests_for(*model.model, 1, 3)[0], b = a;
  ASSERT_GT(a.prompt.size(), 200u);
  b.prompt[130] = (b.prompt[130] + 1) % 10;
  EXPECT_EQ(hits(model, model, a, b), 128);
  b = a;
  b.prompt[0] = (b.prompt[0] + 1) % 10;
  EXPECT_EQ(hits(model, model, a, b), 0);
}

/// The frequencies of a sequence that may become long are others.
TEST_F(StoredKeys, PlannedLengthsWithOtherFrequenciesDoNotShare) {
  const Checkpoint model =
      long_model("phi3_long", temp_ / "m", DType::f32, {{"original_max_position_embeddings", 450}});
  GenerateRequest a = requests_for(*model.model, 1, 3)[0], b = a;
  a.max_tokens = 10, b.max_tokens = 400;
  EXPECT_EQ(hits(model, model, a, b), 0);
  const Checkpoint plain = long_model("llama_mha", temp_ / "plain");
  EXPECT_GT(hits(plain, plain, a, b), 60);
}

TEST_F(StoredKeys, ModifiersDoNotShareUnlessTheirContentIsTheSame) {
  const Checkpoint model = long_model("llama_mha", temp_ / "m");
  const auto adapter = [&](float size) {
    NewAdapter options;
    options.rank = 2;
    const WritableAdapter made = new_adapter(model, options, 3);
    for (const AdapterMatrix& matrix : made.matrices) {
      for (std::int64_t i = 0; i < matrix.param->shape.count(); ++i) {
        matrix.values[i] = size * static_cast<float>((i * 7919 + 3) % 11 - 5);
      }
    }
    return made.adapter;
  };
  const auto control = [&](float size) { return some_control(model.model->config(), size); };
  const std::vector<std::function<ModifierList()>> lists = {
      [&] { return ModifierList{}; },
      [&] {
        return ModifierList{{{adapter(0.05f), 1}}, {}};
      },
      [&] {
        return ModifierList{{{adapter(0.05f), 0.5}}, {}};
      },
      [&] {
        return ModifierList{{{adapter(0.06f), 1}}, {}};
      },
      [&] {
        return ModifierList{{{adapter(0.05f), 1}, {adapter(0.06f), 1}}, {}};
      },
      [&] {
        return ModifierList{{{adapter(0.06f), 1}, {adapter(0.05f), 1}}, {}};
      },
      [&] {
        return ModifierList{{}, {{control(0.3f), 1}}};
      },
      [&] {
        return ModifierList{{}, {{control(0.3f), 2}}};
      },
      [&] {
        return ModifierList{{}, {{control(0.4f), 1}}};
      },
      [&] {
        return ModifierList{{}, {{control(0.3f), 1, {1, 1}}}};
      },
      [&] {
        return ModifierList{{{adapter(0.05f), 1}}, {{control(0.3f), 1}}};
      },
  };
  const GenerateRequest r = requests_for(*model.model, 1, 3)[0];
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (std::size_t j = 0; j < lists.size(); ++j) {
      GenerateRequest a = r, b = r;
      a.modifiers = lists[i](), b.modifiers = lists[j]();  // of other objects, also if i is j
      EXPECT_EQ(hits(model, model, a, b) > 0, i == j) << i << " and " << j;
    }
  }
}

TEST_F(StoredKeys, WrongBlocksAreComputedAgain) {
  for (const char* const name : {"mistral", "falcon_h1"}) {
    const Checkpoint model = long_model(name, temp_ / name);
    const std::string path = temp_ / (std::string(name) + "-store");
    GenerateContext c = context(model);
    c.state_every = 64;
    const GenerateRequest r = requests_for(*model.model, 1, 3)[0];
    const std::string expected = run(c, {&r, 1})[0];
    Dice dice(5);
    std::int64_t n_errors = 0;
    for (int process = 0; process < 8; ++process) {
      GenerateContext own = c;
      Opened opened(path, model, own);
      own.store = &opened.of_model;
      EXPECT_EQ(run(own, {&r, 1})[0], expected) << name << " process " << process;
      opened.store.flush();
      n_errors += opened.store.errors();
      std::vector<std::string> files;
      for (const auto& entry : fs::directory_iterator(path)) {
        if (entry.path().extension() == ".block") files.push_back(entry.path());
      }
      ASSERT_GT(files.size(), 3u);
      const std::string& file = files[static_cast<std::size_t>(dice.number(0, std::ssize(files) - 1))];
      std::string bytes = read_file(file);
      const auto at = static_cast<std::size_t>(dice.number(0, std::ssize(bytes) - 1));
      bytes[at] = static_cast<char>(bytes[at] ^ 16);
      write_file(file, process % 2 == 0 ? bytes : bytes.substr(0, at));
    }
    EXPECT_GT(n_errors, 0) << name;
  }
}

TEST_F(StoredKeys, ASmallStoreKeepsTheBeginnings) {
  const Checkpoint model = long_model("llama_mha", temp_ / "m");
  GenerateContext c = context(model);
  const GenerateRequest r = requests_for(*model.model, 1, 3)[0];
  const std::int64_t block = c.make_cache(1).row_bytes() * StoredPrefix::kBlock;
  const std::int64_t most = (block / 4096 + 2) * 4096 * 4;
  ASSERT_GT(r.prompt.size(), 300u);
  for (int process = 0; process < 2; ++process) {
    GenerateContext own = c;
    Opened opened(temp_ / "s", model, own, most);
    own.store = &opened.of_model;
    run(own, {&r, 1});
    opened.store.flush();
    EXPECT_LE(opened.store.bytes(), most);
    if (process == 1) {
      EXPECT_GE(opened.of_model.hit_tokens(), StoredPrefix::kBlock);
    }
  }
}

}  // namespace
}  // namespace vitrine::test
