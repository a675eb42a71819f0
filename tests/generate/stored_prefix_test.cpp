// Sequences that begin with what is on disk get the bits that they get without it, and nothing is shared that differs
// in anything but later ids.
#include "generate/stored_prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/adapters/create.h"
#include "checkpoint/init.h"
#include "generate/generator.h"
#include "generate/lookup_proposer.h"
#include "generate/speculation.h"
#include "support/controls.h"
#include "support/data.h"
#include "support/dice.h"
#include "support/run.h"
#include "support/state_models.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLarge = std::int64_t{1} << 30;

/// A model with the config of a golden case, random weights and a context of 1024 tokens.
Checkpoint long_model(const std::string& name, const std::string& folder, DType dtype = DType::f32,
                      const Json& changes = Json::object()) {
  if (std::ranges::count(kStateModels, name) > 0) return state_model(name, folder);
  ThreadPool pool(1);
  if (name == "lstm" || name == "dense") {
    Json config = {{"model_type", "vitrine"}, {"layers", name},   {"d_model", 6},       {"d_hidden", 10},
                   {"n_layers", 2},           {"vocab_size", 40}, {"max_seq_len", 1024}};
    if (name == "dense") config["context"] = 4;
    init_checkpoint(config, "test", folder, DType::f32, 3, pool);
  } else {
    Json config = Json::parse(read_file(source_dir() + "/tests/goldens/" + name + "/config.json"));
    config["max_position_embeddings"] = 1024;
    config.update(changes);
    init_checkpoint(config, "test", folder, dtype, 3, pool);
  }
  return load_checkpoint(folder);
}

/// Prompts that begin alike, of different lengths and owners.
std::vector<GenerateRequest> requests_for(const Model& model, std::size_t n, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<GenerateRequest> requests(n);
  for (std::size_t i = 0; i < n; ++i) {
    GenerateRequest& r = requests[i];
    const std::vector<std::int32_t> base = some_ids(model, 400, 1);
    r.prompt.assign(base.begin(), base.begin() + dice.number(100, 400));
    const std::vector<std::int32_t> own = some_ids(model, dice.number(1, 70), 100 + i);
    if (i % 3 != 0) r.prompt.insert(r.prompt.end(), own.begin(), own.end());
    r.owner = i % 5 == 4 ? "other" : "";
    r.max_tokens = dice.number(0, i % 4 == 0 ? 90 : 12);
    r.sampling = {.temperature = i % 2 == 0 ? 0.0 : 1.0, .top_k = 0, .top_p = 1};
    r.sequence = i;
    r.n_logprobs = 2;
    r.wants_prompt_logprobs = i % 7 == 5;
  }
  return requests;
}

std::string shown(const GenerateResult& result) {
  std::string text = fmt::format("{} {}", fmt::join(result.ids, ","), name_of(result.finish_reason));
  for (const auto* tokens : {&result.prompt_logprobs, &result.logprobs}) {
    for (const TokenReport& token : *tokens) text += fmt::format(" {}:{}", token.id, token.logprob);
  }
  return text;
}

std::vector<std::string> run(const GenerateContext& context, std::span<const GenerateRequest> requests,
                             std::int64_t* cached = nullptr) {
  std::vector<std::string> texts;
  for (const GenerateResult& result : generate(context, requests)) {
    texts.push_back(shown(result));
    if (cached != nullptr) *cached += result.cached_tokens;
  }
  return texts;
}

/// A store as a process opens it.
struct Opened {
  Opened(const std::string& path, const Checkpoint& checkpoint, const GenerateContext& context,
         std::int64_t bytes = kLarge)
      : store(path, bytes, {}), of_model(store, checkpoint, context) {}

  PrefixStore store;
  ModelStore of_model;
};

class Stored : public testing::Test {
 protected:
  /// The bits of the requests without a store, with an empty one, and with what that run has written. Returns how many
  /// tokens the last run took from the store.
  std::int64_t expect_same(const Checkpoint& checkpoint, GenerateContext context,
                           const std::vector<GenerateRequest>& requests) {
    const std::string path = temp_ / std::to_string(++n_stores_);
    const std::vector<std::string> expected = run(context, requests);
    std::int64_t cached = 0, hits = 0;
    for (int process = 0; process < 3; ++process) {
      Opened opened(path, checkpoint, context);
      context.store = &opened.of_model;
      PrefixCache prefixes;
      KvPool memory(kLarge, process == 2 ? 24 : 1024);
      GenerateContext own = context;
      if (process > 0) own.prefixes = &prefixes, own.kv_memory = &memory;
      cached = 0;
      EXPECT_EQ(run(own, requests, &cached), expected) << "process " << process;
      hits = opened.of_model.hit_tokens();
      EXPECT_EQ(opened.store.errors(), 0);
    }
    EXPECT_GT(cached, 0);
    EXPECT_GE(cached, hits);
    return hits;
  }
  GenerateContext context(const Checkpoint& checkpoint) { return {checkpoint.model.get(), &pool_, &default_kernels()}; }

  const TempFolder temp_;
  ThreadPool pool_{2};
  int n_stores_ = 0;
};

class StoredKinds : public Stored, public testing::WithParamInterface<std::string> {};

TEST_P(StoredKinds, TheBitsAreTheSame) {
  const Checkpoint checkpoint = long_model(GetParam(), temp_ / "m");
  GenerateContext c = context(checkpoint);
  const std::vector<GenerateRequest> requests = requests_for(*checkpoint.model, 8, 3);
  EXPECT_GT(expect_same(checkpoint, c, requests), 300);
  c.chunk = 100, c.state_every = 48;
  EXPECT_GT(expect_same(checkpoint, c, requests), 300) << "states between blocks";
}

INSTANTIATE_TEST_SUITE_P(Plain, StoredKinds,
                         testing::Values("llama_mha", "gemma2", "gemma3n", "gpt_oss", "mistral", "phi3_long",
                                         "llama_dynamic_rope", "llama4", "deepseek_v3"),
                         [](const auto& of) { return of.param; });
INSTANTIATE_TEST_SUITE_P(States, StoredKinds,
                         testing::Values("qwen3_5_text", "kimi_linear", "lfm2", "falcon_h1", "mamba", "mamba2", "lstm",
                                         "dense"),
                         [](const auto& of) { return of.param; });

TEST_F(Stored, EveryTypeOfKeysAndValuesHasItsOwnBlocks) {
  const Checkpoint checkpoint = long_model("gemma2", temp_ / "m");
  const std::vector<GenerateRequest> requests = requests_for(*checkpoint.model, 6, 3);
  GenerateContext c = context(checkpoint);
  PrefixStore store(temp_ / "s", kLarge, {});
  std::set<BlockName> roots;
  for (const char* const names : {"f32", "bf16", "f16", "int8", "int4", "int8:int4", "f16:int8", "int4:int8"}) {
    c.kv_types = *kv_types_named(names);
    EXPECT_GT(expect_same(checkpoint, c, requests), 300) << names;
    roots.insert(ModelStore(store, checkpoint, c).root({}, {}));
  }
  EXPECT_EQ(roots.size(), 8u);
}

TEST_F(Stored, EveryComputeTypeHasItsOwnBlocks) {
  const Checkpoint checkpoint = long_model("llama_mha", temp_ / "m", DType::bf16);
  const std::vector<GenerateRequest> requests = requests_for(*checkpoint.model, 6, 3);
  GenerateContext c = context(checkpoint);
  PrefixStore store(temp_ / "s", kLarge, {});
  std::set<BlockName> roots;
  for (const Compute compute : {Compute::automatic, Compute::f32, Compute::int8, Compute::bf16}) {
    c.compute = compute;
    EXPECT_GT(expect_same(checkpoint, c, requests), 300);
    roots.insert(ModelStore(store, checkpoint, c).root({}, {}));
  }
  EXPECT_EQ(roots.size(), 4u);
}

TEST_F(Stored, InstructionSetsShareBlocks) {
  const Checkpoint checkpoint = long_model("llama_mha", temp_ / "m", DType::bf16);
  const std::vector<GenerateRequest> requests = requests_for(*checkpoint.model, 4, 3);
  GenerateContext c = context(checkpoint);
  const std::vector<std::string> expected = run(c, requests);
  bool is_first = true;
  for (const Isa isa : available_isas()) {
    c.kernels = &kernels_for(isa);
    Opened opened(temp_ / "s", checkpoint, c);
    c.store = &opened.of_model;
    EXPECT_EQ(run(c, requests), expected);
    EXPECT_EQ(opened.of_model.hit_tokens() > 0, !is_first);
    is_first = false;
  }
}

TEST_F(Stored, SpeculationChangesNothing) {
  for (const char* const name : {"gemma2", "qwen3_5_text"}) {
    const Checkpoint checkpoint = long_model(name, temp_ / name);
    std::vector<GenerateRequest> requests = requests_for(*checkpoint.model, 6, 3);
    for (GenerateRequest& r : requests) r.max_tokens = 100;
    GenerateContext c = context(checkpoint);
    c.state_every = 32;
    Speculation speculation{"lookup", [](const GenerateRequest& request) {
                              return std::make_unique<LookupProposer>(request.prediction, request.prompt.size());
                            }};
    speculation.fixed = 5;
    const std::vector<std::string> expected = run(c, requests);
    c.speculation = &speculation;
    EXPECT_GT(expect_same(checkpoint, c, requests), 300);
    EXPECT_EQ(run(c, requests), expected);
  }
}

/// Sequences that lose their memory to older ones read the store again.
TEST_F(Stored, PreemptedSequencesGoOn) {
  for (const char* const name : {"llama_mha", "lfm2"}) {
    const Checkpoint checkpoint = long_model(name, temp_ / name);
    std::vector<GenerateRequest> requests = requests_for(*checkpoint.model, 12, 9);
    for (GenerateRequest& r : requests) {
      r.prompt.resize(100);
      r.max_tokens = 120;
    }
    GenerateContext c = context(checkpoint);
    c.state_every = 64;
    const std::vector<std::string> expected = run(c, requests);
    std::int64_t n_restarts = 0, hits = 0;
    for (int process = 0; process < 3; ++process) {
      KvPool sizes(std::int64_t{1} << 40, 16);
      const std::int64_t one = checkpoint.model->make_cache(600, {}, sizes).missing_bytes(600);
      KvPool memory(one, 16);
      PrefixCache prefixes;
      Opened opened(temp_ / (std::string(name) + "-store"), checkpoint, c);
      GenerateContext own = c;
      own.store = &opened.of_model;
      own.kv_memory = &memory;
      own.prefixes = process == 1 ? nullptr : &prefixes;
      Engine engine(own);
      for (const GenerateRequest& request : requests) engine.add(request);
      while (!engine.empty()) {
        for (const SequenceStep& s : engine.step(200).sequences) {
          ASSERT_FALSE(s.error);
          if (s.result) {
            EXPECT_EQ(shown(*s.result), expected[s.id]);
          }
        }
      }
      n_restarts += engine.n_restarts();
      hits += opened.of_model.hit_tokens();
    }
    EXPECT_GT(n_restarts, 0) << name;
    EXPECT_GT(hits, 0) << name;
  }
}

/// The texts of a session, whose cache the caller keeps.
TEST_F(Stored, SessionsUseTheStore) {
  for (const char* const name : {"gemma2", "falcon_h1"}) {
    const Checkpoint checkpoint = long_model(name, temp_ / name);
    GenerateContext c = context(checkpoint);
    c.state_every = 64;
    GenerateRequest request = requests_for(*checkpoint.model, 1, 3)[0];
    request.max_tokens = 40;
    const std::string expected = run(c, {&request, 1})[0];
    for (int process = 0; process < 2; ++process) {
      Opened opened(temp_ / "s", checkpoint, c);
      GenerateContext own = c;
      own.store = &opened.of_model;
      request.cache = std::make_shared<KvCache>(c.make_cache(std::ssize(request.prompt) + 39));
      request.cache->keep_snapshots(64);
      std::int64_t cached = 0;
      EXPECT_EQ(run(own, {&request, 1}, &cached)[0], expected);
      EXPECT_EQ(cached > 0, process == 1);
      request.cache->truncate(std::ssize(request.prompt) - 30);
      EXPECT_EQ(run(own, {&request, 1})[0], expected) << "the cache begins with a part of the prompt";
    }
  }
}

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

TEST_F(Stored, ModelsWithoutSuchACacheAreRefusedByName) {
  const Checkpoint source = golden_checkpoint("pairs/t5");
  PrefixStore store(temp_ / "s", kLarge, {});
  const GenerateContext c = context(source);
  EXPECT_THAT(message_of<Unsupported>([&] { ModelStore(store, source, c); }), testing::HasSubstr("encoder–decoder"));
}

}  // namespace
}  // namespace vitrine::test
