// Sequences that begin with what is on disk get the bits that they get without it.
#include <set>

#include "base/error.h"
#include "generate/lookup_proposer.h"
#include "generate/speculation.h"
#include "generate/stored_runs.h"

namespace vitrine::test {
namespace {

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

TEST_F(Stored, ModelsWithoutSuchACacheAreRefusedByName) {
  const Checkpoint source = golden_checkpoint("pairs/t5");
  PrefixStore store(temp_ / "s", kLarge, {});
  const GenerateContext c = context(source);
  EXPECT_THAT(message_of<Unsupported>([&] { ModelStore(store, source, c); }), testing::HasSubstr("encoder–decoder"));
}

}  // namespace
}  // namespace vitrine::test
