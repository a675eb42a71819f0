// The public interface of the library.
#include "vitrine/vitrine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/temp_folder.h"
#include "checkpoint/safetensors.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

std::string default_folder() { return source_dir() + "/models/default"; }
LanguageModel default_model(int threads = 1) { return LanguageModel::open(default_folder(), {.threads = threads}); }

/// A text that goes on to the end of the context: no sampled id stops it.
GenerateOptions long_text(std::function<void(const std::string&)> on_text = {}) {
  return {.max_tokens = 1 << 20, .on_text = std::move(on_text)};
}

TEST(Library, OpensWhatTheCheckpointSays) {
  const LanguageModel model = default_model();
  const Checkpoint checkpoint = load_checkpoint(default_folder());
  EXPECT_EQ(model.description(), checkpoint.description);
  EXPECT_EQ(model.vocab_size(), checkpoint.model->config().vocab_size);
  EXPECT_EQ(model.max_seq_len(), checkpoint.model->config().max_seq_len);
  EXPECT_EQ(model.d_model(), checkpoint.model->config().d_model);
  EXPECT_EQ(model.n_layers(), static_cast<std::int64_t>(checkpoint.model->config().n_layers()));
}

TEST(Library, PromptsAreTextsOrIds) {
  const LanguageModel model = default_model();
  const Ids ids = model.ids("Once upon a time");
  EXPECT_EQ(ids, model.tokenizer().encode("Once upon a time", SpecialTokens::apply));
  EXPECT_EQ(model.ids(ids), ids);
  EXPECT_EQ(model.ids(""), Ids{*model.tokenizer().bos()});
  EXPECT_EQ(model.generate("Once", {.max_tokens = 5}).ids, model.generate(model.ids("Once"), {.max_tokens = 5}).ids);
}

TEST(Library, LogitsAreTheModels) {
  for (const std::string& name : {std::string("gemma2"), std::string("gpt2"), std::string("llama_mha")}) {
    const LanguageModel model = LanguageModel::open(goldens() + "/" + name, {.threads = 2});
    const Ids ids = golden_ids(name);
    const std::vector<float> logits = model.logits(ids);
    EXPECT_TRUE(same_bits(logits, logits_of(*golden_checkpoint(name).model, ids))) << name;
    std::vector<float> rows;
    model.logits(ids, [&](std::int64_t position, std::span<const float> row) {
      EXPECT_EQ(rows.size(), static_cast<std::size_t>(position * model.vocab_size()));
      rows.insert(rows.end(), row.begin(), row.end());
    });
    EXPECT_TRUE(same_bits(logits, rows)) << name;
  }
}

TEST(Library, PredictsAfterEveryPrefix) {
  const LanguageModel model = default_model();
  const auto tops = model.predict("Hi there", 3);
  const Ids ids = model.ids("Hi there");
  ASSERT_EQ(tops.size(), ids.size());
  const std::vector<float> logits = model.logits(ids);
  for (std::size_t t = 0; t < tops.size(); ++t) {
    ASSERT_EQ(tops[t].size(), 3u);
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(t) * model.vocab_size();
    EXPECT_EQ(tops[t][0].id, std::max_element(row, row + model.vocab_size()) - row);
    EXPECT_GE(tops[t][0].logprob, tops[t][1].logprob);
  }
  double total = 0;
  for (const TokenLogprob& token : model.next("Hi", static_cast<int>(model.vocab_size()))) {
    total += std::exp(token.logprob);
  }
  EXPECT_NEAR(total, 1, 1e-12);
  const std::vector<TokenLogprob> next = model.next("Hi there", 3);
  ASSERT_EQ(next.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(next[i].id, tops.back()[i].id);
    EXPECT_EQ(next[i].logprob, tops.back()[i].logprob);
  }
}

TEST(Library, StreamsWhatItReturns) {
  const LanguageModel model = default_model();
  std::string streamed;
  const auto on_text = [&](const std::string& text) { streamed += text; };
  const GenerateResult one = model.generate("Hi", {.max_tokens = 30, .seed = 3, .on_text = on_text});
  EXPECT_EQ(streamed, one.text);
  EXPECT_FALSE(one.text.empty());
  EXPECT_EQ(model.generate("Hi", {.max_tokens = 30, .seed = 3}).ids, one.ids);
  EXPECT_NE(model.generate("Hi", {.max_tokens = 30, .seed = 4}).ids, one.ids);

  const std::string stop = one.text.substr(one.text.size() / 2, 3);
  const GenerateResult cut = model.generate("Hi", {.max_tokens = 30, .stop = {stop}, .n_logprobs = 2, .seed = 3});
  EXPECT_EQ(cut.text, one.text.substr(0, one.text.find(stop)));
  EXPECT_EQ(cut.finish_reason, FinishReason::stop);
  ASSERT_EQ(cut.logprobs.size(), cut.ids.size());
  EXPECT_EQ(cut.logprobs[0].top.size(), 2u);
}

TEST(Library, SamplesAsTheCheckpointAsks) {
  const TempFolder folder;
  std::filesystem::copy(default_folder(), folder.path(), std::filesystem::copy_options::recursive);
  write_file(folder / "generation_config.json", R"({"do_sample": true, "temperature": 0.25, "top_k": 7})");
  const SamplingConfig asked = LanguageModel::open(folder.path()).default_sampling();
  EXPECT_EQ(asked.temperature, 0.25);
  EXPECT_EQ(asked.top_k, 7);
  EXPECT_EQ(asked.top_p, SamplingConfig().top_p);
  write_file(folder / "generation_config.json", R"({"do_sample": false})");
  EXPECT_EQ(LanguageModel::open(folder.path()).default_sampling().temperature, 0);
  EXPECT_EQ(default_model().default_sampling().temperature, SamplingConfig().temperature);
}

TEST(Library, TracesAndWrites) {
  const LanguageModel model = LanguageModel::open(goldens() + "/gemma2");
  const Ids ids = golden_ids("gemma2");
  const auto golden = golden_values("gemma2");
  const auto seen = model.trace(ids, {.sites = {"blocks.*.attn.hook_pattern", "hook_embed"}, .writes = {}});
  ASSERT_EQ(seen.size(), static_cast<std::size_t>(model.n_layers()) + 1);
  EXPECT_EQ(seen[0].name, "hook_embed");
  for (const SiteValue& site : seen) {
    const auto sizes = golden.at(site.name).shape.sizes();
    EXPECT_EQ(site.shape, std::vector<std::int64_t>(sizes.begin(), sizes.end())) << site.name;
    ASSERT_EQ(site.values.size(), golden.at(site.name).data.size());
    for (std::size_t i = 0; i < site.values.size(); ++i) {
      EXPECT_NEAR(site.values[i], golden.at(site.name).data[i], 1e-5) << site.name;
    }
  }
  const auto silenced = model.trace(ids, {.sites = {"blocks.0.attn.hook_z"}, .writes = {"blocks.0.attn.hook_z=0"}});
  EXPECT_THAT(silenced.at(0).values, testing::Each(0.0F));
}

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

TEST(Library, ASessionInPartsGivesTheLogitsOfTheWhole) {
  const LanguageModel model = LanguageModel::open(goldens() + "/gemma2");
  const Ids ids = golden_ids("gemma2");
  const auto n_ids = static_cast<std::int64_t>(ids.size());
  const std::vector<float> all = model.logits(ids);
  Session session = model.session({.capacity = n_ids});
  EXPECT_TRUE(session.logits().empty());
  const std::span parts(ids);
  for (std::size_t at = 0, size = 1; at < ids.size(); at += size++) {
    const auto part = parts.subspan(at, std::min(size, ids.size() - at));
    if (part.size() == 1) {
      session.feed(part[0]);
    } else {
      session.feed(part);
    }
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(session.ids().size() - 1) * model.vocab_size();
    EXPECT_EQ(copy_of(session.logits()), std::vector<float>(row, row + model.vocab_size()));
  }
  EXPECT_EQ(session.ids(), ids);
}

TEST(Library, ASessionWithSampleIsGenerate) {
  const LanguageModel model = default_model();
  const Ids expected = model.generate("Once", {.max_tokens = 12, .seed = 5}).ids;
  Session session = model.session();
  session.feed(model.ids("Once"));
  Ids drawn;
  while (drawn.size() < expected.size()) {
    drawn.push_back(sample(session.logits(), session.ids(), model.default_sampling(), {5, 0, drawn.size()}));
    session.feed(drawn.back());
  }
  EXPECT_EQ(drawn, expected);
}

TEST(Library, AFunctionWatchesAndReplacesSites) {
  const LanguageModel model = LanguageModel::open(goldens() + "/gemma2");
  const Ids ids = golden_ids("gemma2");
  std::vector<SiteValue> seen;
  const auto watch = [&](const std::string& name, std::span<float> values, std::span<const std::int64_t> shape) {
    seen.push_back({name, {shape.begin(), shape.end()}, copy_of(values)});
  };
  Session session = model.session({.watch = {{"blocks.*.hook_resid_post", "blocks.1.attn.hook_z"}, watch}});
  session.feed(ids);
  const auto traced = model.trace(ids, {.sites = {"blocks.*.hook_resid_post", "blocks.1.attn.hook_z"}, .writes = {}});
  ASSERT_EQ(seen.size(), traced.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].name, traced[i].name);
    EXPECT_EQ(seen[i].shape, traced[i].shape);
    EXPECT_EQ(seen[i].values, traced[i].values) << seen[i].name;
  }
  const std::vector<float> unwatched = model.logits(ids);
  EXPECT_EQ(copy_of(session.logits()), std::vector<float>(unwatched.end() - model.vocab_size(), unwatched.end()))
      << "looking changes no bit";

  const auto silence = [](const std::string&, std::span<float> values, std::span<const std::int64_t>) {
    std::fill(values.begin(), values.end(), 0.0F);
  };
  Session silenced = model.session({.watch = {{"blocks.0.attn.hook_z"}, silence}});
  silenced.feed(ids);
  const auto written = model.trace(ids, {.sites = {"hook_logits"}, .writes = {"blocks.0.attn.hook_z=0"}}).at(0).values;
  EXPECT_EQ(copy_of(silenced.logits()), std::vector<float>(written.end() - model.vocab_size(), written.end()));

  GenerateOptions options{.max_tokens = 3, .temperature = 0};
  std::vector<std::int64_t> rows;
  options.watch = {{"hook_embed"}, [&](const std::string&, std::span<float>, std::span<const std::int64_t> shape) {
                     rows.push_back(shape[0]);
                   }};
  EXPECT_EQ(model.generate(Ids{1, 2, 3, 4}, options).ids.size(), 3U);
  EXPECT_EQ(rows, (std::vector<std::int64_t>{4, 1, 1}));
}

TEST(Library, ASessionRefusesWhatDoesNotFitAndClosesOnOtherErrors) {
  const LanguageModel model = LanguageModel::open(goldens() + "/gemma2");
  EXPECT_THROW(model.session({.capacity = model.max_seq_len() + 1}), BadInput);
  EXPECT_THROW(model.session({.capacity = -1}), BadInput);
  Session session = model.session({.capacity = 4});
  session.feed(Ids{1, 2});
  const std::vector<float> before = copy_of(session.logits());
  EXPECT_THROW(session.feed(static_cast<std::int32_t>(model.vocab_size())), BadInput);
  EXPECT_THROW(session.feed(Ids{1, 2, 3}), BadInput);
  EXPECT_EQ(copy_of(session.logits()), before);
  session.feed(Ids{3, 4});
  EXPECT_EQ(session.ids(), (Ids{1, 2, 3, 4}));

  Session cancelled = model.session();
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(cancelled.feed(1, source.get_token()), Interrupted);
  EXPECT_THAT(message_of<BadInput>([&] { cancelled.feed(1); }), testing::HasSubstr("failed"));

  const auto ignore = [](const std::string&, std::span<float>, std::span<const std::int64_t>) {};
  Session none = model.session({.watch = {{"no_such_site"}, ignore}});
  EXPECT_THAT(message_of<BadInput>([&] { none.feed(1); }), testing::HasSubstr("no_such_site"));
}

TEST(Library, SavesSites) {
  const LanguageModel model = default_model();
  const TempFolder folder;
  const auto seen = model.trace("Hi");
  save_sites(folder / "sites.safetensors", seen);
  const SafetensorsFile file = SafetensorsFile::open(folder / "sites.safetensors");
  EXPECT_EQ(file.tensors().size(), seen.size());
  for (const SiteValue& site : seen) {
    const StoredTensor& stored = file.tensors().at(site.name);
    EXPECT_EQ(stored.shape, site.shape);
    EXPECT_TRUE(std::ranges::equal(stored.bytes, std::as_bytes(std::span(site.values)))) << site.name;
  }
  std::vector<SiteValue> wrong = {{"x", {2, 3}, {1, 2}}};
  EXPECT_THROW(save_sites(folder / "wrong.safetensors", wrong), BadInput);
  EXPECT_THROW(save_sites(folder / "no/such/folder", seen), BadInput);
  EXPECT_EQ(folder.entries(), 1) << "nothing half-written stays";
}

TEST(Library, ErrorsSayWhatIsWrong) {
  const auto open = [](const std::string& path, OpenOptions options = {}) { LanguageModel::open(path, options); };
  EXPECT_THAT(message_of<BadInput>([&] { open("/no/such/model"); }), testing::HasSubstr("/no/such/model"));
  EXPECT_THROW(open(default_folder(), {.tokenizer = "/no/such/tokenizer"}), BadInput);
  EXPECT_THAT(message_of<BadInput>([&] { open(default_folder(), {.threads = -1}); }), testing::HasSubstr("-1"));

  const LanguageModel model = default_model();
  const Ids none, unknown = {static_cast<std::int32_t>(model.vocab_size())};
  const Ids too_long(static_cast<std::size_t>(model.max_seq_len()) + 1, 1);
  for (const Ids& ids : {none, unknown, too_long}) {
    EXPECT_THROW(model.generate(ids), BadInput);
    EXPECT_THROW(model.predict(ids), BadInput);
    EXPECT_THROW(model.logits(ids), BadInput);
    EXPECT_THROW(model.trace(ids), BadInput);
  }
  EXPECT_THROW(model.predict("Hi", -1), BadInput);
  EXPECT_THROW(model.next("Hi", 0), BadInput);
  EXPECT_THROW(model.next(too_long), BadInput);
  EXPECT_THROW(model.generate("Hi", {.max_tokens = -1}), BadInput);
  EXPECT_THROW(model.generate("Hi", {.top_p = 2}), BadInput);
  EXPECT_THAT(message_of<BadInput>([&] { model.trace("Hi", {.sites = {"nope"}, .writes = {}}); }),
              testing::HasSubstr("nope"));
  EXPECT_THROW(model.trace("Hi", {.sites = {}, .writes = {"hook_embed"}}), BadInput);
}

TEST(Library, WithoutATokenizerIdsStillRun) {
  const LanguageModel model = LanguageModel::open(goldens() + "/gpt2");
  EXPECT_EQ(model.generate(Ids{1, 2, 3}, {.max_tokens = 4}).text, "");
  EXPECT_THAT(message_of<BadInput>([&] { model.generate("Hi"); }), testing::HasSubstr("tokenizer"));
  EXPECT_THROW(model.tokenizer(), BadInput);
  EXPECT_THROW(model.generate(Ids{1}, {.stop = {"x"}}), BadInput);
}

TEST(Library, ACallThatIsCancelledEndsAndTheNextRuns) {
  const LanguageModel model = default_model();
  std::stop_source before;
  before.request_stop();
  EXPECT_THROW(model.predict("Hi", 3, before.get_token()), Interrupted);
  EXPECT_THROW(model.next("Hi", 3, before.get_token()), Interrupted);
  EXPECT_THROW(model.logits("Hi", before.get_token()), Interrupted);
  EXPECT_THROW(model.trace("Hi", {}, before.get_token()), Interrupted);

  std::stop_source source;
  std::atomic<int> pieces = 0;
  std::jthread other([&] {
    while (pieces == 0) std::this_thread::yield();
    source.request_stop();
  });
  const auto on_text = [&](const std::string&) {
    ++pieces;
    while (!source.stop_requested()) std::this_thread::yield();  // so that the text cannot end first
  };
  EXPECT_THROW(model.generate("Hi", long_text(on_text), source.get_token()), Interrupted);
  EXPECT_EQ(pieces, 1);
  EXPECT_EQ(model.generate("Hi", {.max_tokens = 3}).ids.size(), 3u);
}

TEST(Library, WhatACallbackThrowsReachesTheCaller) {
  const LanguageModel model = default_model();
  const auto on_text = [](const std::string&) { throw std::logic_error("enough"); };
  EXPECT_THROW(model.generate("Hi", long_text(on_text)), std::logic_error);
  EXPECT_EQ(model.generate("Hi", {.max_tokens = 3}).ids.size(), 3u);
}

TEST(Library, ACallbackMayUseTheModel) {
  const LanguageModel model = default_model(2);
  std::size_t n = 0;
  model.generate("Hi", {.max_tokens = 4, .on_text = [&](const std::string&) { n += model.predict("Hi").size(); }});
  EXPECT_GT(n, 0u);
}

TEST(Library, ThreadsShareOneModel) {
  const LanguageModel model = default_model(2);
  const auto text = [&](std::uint64_t seed) { return model.generate("Hi", {.max_tokens = 20, .seed = seed}).text; };
  std::vector<std::string> alone, together(4);
  for (std::uint64_t seed = 0; seed < 4; ++seed) alone.push_back(text(seed));
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      threads.emplace_back([&, seed, copy = model] { together[seed] = text(seed); });
    }
  }
  EXPECT_EQ(together, alone);
  EXPECT_NE(alone[0], alone[1]);
}

TEST(Library, HasThreadsForFourCallsAtMost) {
  const auto n_threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  constexpr int kCalls = 12, kThreads = 3;
  const auto before = n_threads();
  const LanguageModel model = default_model(kThreads);
  const std::string expected = model.generate("Hi", {.max_tokens = 5}).text;
  std::vector<std::string> texts(kCalls);
  std::barrier all_run(kCalls + 1), counted(kCalls + 1);
  std::vector<std::jthread> callers;
  for (std::string& text : texts) {
    callers.emplace_back([&] {
      bool waited = false;
      const auto wait = [&](const std::string&) {
        if (std::exchange(waited, true)) return;
        all_run.arrive_and_wait();
        counted.arrive_and_wait();
      };
      text = model.generate("Hi", {.max_tokens = 5, .on_text = wait}).text;
    });
  }
  all_run.arrive_and_wait();
  EXPECT_LE(n_threads() - before, kCalls + 4 * (kThreads - 1));
  counted.arrive_and_wait();
  callers.clear();
  EXPECT_THAT(texts, testing::Each(expected));
}

TEST(Library, OutlivesTheObjectItWasCopiedFrom) {
  std::optional<LanguageModel> first = default_model();
  const LanguageModel second = *first;
  const Ids ids = first->generate("Hi", {.max_tokens = 5}).ids;
  first.reset();
  EXPECT_EQ(second.generate("Hi", {.max_tokens = 5}).ids, ids);
}

TEST(Library, StoriesByteForByte) {
  const std::string folder = outside_data("models/stories260K");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no models/stories260K";
  const auto model = LanguageModel::open(folder + "/stories260K.bin", {.tokenizer = folder + "/tok512.bin"});
  const GenerateOptions greedy = {.max_tokens = 200, .temperature = 0};
  EXPECT_EQ(model.generate("", greedy).text, read_file(folder + "/greedy_200_tokens.txt"));
}

}  // namespace
}  // namespace vitrine::test
