// Models with a long context, requests that begin alike, and runs with a store.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temp_folder.h"
#include "checkpoint/init.h"
#include "generate/generator.h"
#include "generate/stored_prefix.h"
#include "support/data.h"
#include "support/dice.h"
#include "support/run.h"
#include "support/state_models.h"

namespace vitrine::test {

inline constexpr std::int64_t kLarge = std::int64_t{1} << 30;

/// A model with the config of a golden case, random weights and a context of 1024 tokens.
inline Checkpoint long_model(const std::string& name, const std::string& folder, DType dtype = DType::f32,
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
inline std::vector<GenerateRequest> requests_for(const Model& model, std::size_t n, std::uint64_t seed) {
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

inline std::string shown(const GenerateResult& result) {
  std::string text = fmt::format("{} {}", fmt::join(result.ids, ","), name_of(result.finish_reason));
  for (const auto* tokens : {&result.prompt_logprobs, &result.logprobs}) {
    for (const TokenReport& token : *tokens) text += fmt::format(" {}:{}", token.id, token.logprob);
  }
  return text;
}

inline std::vector<std::string> run(const GenerateContext& context, std::span<const GenerateRequest> requests,
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

}  // namespace vitrine::test
