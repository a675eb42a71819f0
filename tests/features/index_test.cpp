// Indexes of features, against a brute-force pass over the dense activations of separate runs.
#include "inspect/feature_index.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/error.h"
#include "features/made_dictionary.h"
#include "features/support.h"
#include "inspect/feature_indexer.h"
#include "inspect/feature_records.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t kSkipped = 3;
constexpr std::int64_t kWindow = 12, kContexts = 3, kFeatures = 60;

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A corpus of random ids, and a dictionary.
class Indexed : public testing::Test {
 protected:
  Indexed() : checkpoint_(golden_checkpoint("llama_mha")), made_(checkpoint_.model->config().d_model, kFeatures) {
    made_.own.selection = {.kind = FeatureSelection::Kind::topk, .k = 7};
    for (std::size_t i = 0; i < 150; ++i) {
      corpus_.push_back(static_cast<std::int32_t>(uniform(5, 0, i) * 30));  // few distinct windows have equal maxima
    }
    for (std::size_t i = 48; i < 60; ++i) corpus_[i] = corpus_[i - 36];  // the window of 12 to 24 again
  }

  std::string folder(const std::string& name) {
    const std::string path = testing::TempDir() + "/vitrine_index_" + name;
    fs::remove_all(path);
    return path;
  }
  IndexOptions options(std::int64_t save_every = 1000) const {
    IndexOptions options;
    options.contexts = kContexts;
    options.settings = {{"window", kWindow}};
    options.save_every = save_every;
    options.window_at = [this](std::int64_t start) {
      const std::int64_t next = std::min(start + kWindow, std::ssize(corpus_));
      return CorpusWindow{{corpus_.begin() + start, corpus_.begin() + next}, next};
    };
    for (int id = 0; id < 30; ++id) options.texts.push_back(fmt::format(" t{}", id));
    return options;
  }
  Applied dictionaries() const {
    auto skipped = std::make_shared<SkippedTokens>();
    skipped->ids = {kSkipped};
    return {
        {std::shared_ptr<const Dictionary>(std::shared_ptr<void>(), &made_.own), DictionaryUse::automatic, skipped}};
  }
  GenerateContext context(ThreadPool& pool, const Applied& applied, std::int64_t chunk = 64) const {
    GenerateContext context = {checkpoint_.model.get(), &pool, &default_kernels()};
    context.modifiers.dictionaries = applied;
    context.chunk = chunk;
    return context;
  }
  /// Writes an index without an interruption. Returns the path of its file.
  std::string index(const std::string& folder, int threads = 1, std::int64_t chunk = 64) const {
    ThreadPool pool(threads);
    const Applied applied = dictionaries();
    FeatureIndexer indexer(context(pool, applied, chunk), folder, options());
    indexer.read(std::ssize(corpus_), {});
    indexer.finish({});
    return file_in(folder);
  }
  static std::string file_in(const std::string& folder) { return folder + "/blocks.1.hook_resid_post.safetensors"; }

  struct Expected {
    std::vector<FeatureContext> contexts;
    std::vector<float> values;  // of all tokens
  };
  /// Each window runs alone; everything is sorted.
  std::vector<Expected> brute_force() const {
    std::vector<Expected> all(kFeatures);
    for (std::int64_t start = 0; start < std::ssize(corpus_); start += kWindow) {
      const std::vector<std::int32_t> ids = options().window_at(start).ids;
      const std::vector<float> acts =
          run(*checkpoint_.model, ids, {.globs = {"*.hook_sae_acts_post"}, .dictionaries = dictionaries()})
              .values.begin()
              ->second;
      for (std::size_t f = 0; f < all.size(); ++f) {
        FeatureContext context = {0, 0, start, ids, {}};
        for (std::size_t t = 0; t < ids.size(); ++t) {
          const float value = acts[t * all.size() + f];
          context.values.push_back(value);
          if (value != 0) all[f].values.push_back(value);
          if (value > context.max) context.max = value, context.position = static_cast<std::int64_t>(t);
        }
        if (context.max > 0) all[f].contexts.push_back(context);
      }
    }
    for (Expected& own : all) {
      std::ranges::stable_sort(own.contexts, std::greater<>(), &FeatureContext::max);
      if (std::ssize(own.contexts) > kContexts) own.contexts.resize(kContexts);
    }
    return all;
  }
  void expect_brute_force(const FeatureIndex& index) const {
    const std::vector<Expected> expected = brute_force();
    const auto n_tokens = std::ssize(corpus_) - std::ranges::count(corpus_, kSkipped);
    ASSERT_EQ(index.d_sae(), kFeatures);
    EXPECT_EQ(index.tokens(), n_tokens);
    EXPECT_EQ(index.dead(), std::ranges::count_if(expected, [](const Expected& own) { return own.values.empty(); }));
    for (std::int64_t f = 0; f < kFeatures; ++f) {
      SCOPED_TRACE(f);
      const Expected& own = expected[static_cast<std::size_t>(f)];
      const FeatureDashboard found = index.dashboard(f);
      ASSERT_EQ(found.contexts.size(), own.contexts.size());
      for (std::size_t i = 0; i < own.contexts.size(); ++i) {
        EXPECT_EQ(found.contexts[i].max, own.contexts[i].max);
        EXPECT_EQ(found.contexts[i].position, own.contexts[i].position);
        EXPECT_EQ(found.contexts[i].start, own.contexts[i].start);
        EXPECT_EQ(found.contexts[i].ids, own.contexts[i].ids);
        EXPECT_EQ(found.contexts[i].values, own.contexts[i].values);
      }
      EXPECT_EQ(found.density, static_cast<double>(own.values.size()) / static_cast<double>(n_tokens));
      std::vector<std::int32_t> counts(found.counts.size());
      for (const float value : own.values) {
        for (std::size_t bin = 0; bin < counts.size(); ++bin) {
          counts[bin] += found.edges[bin] <= value && value < found.edges[bin + 1] ? 1 : 0;
        }
      }
      EXPECT_EQ(found.counts, counts);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), std::ssize(own.values));
      if (own.values.empty()) continue;
      float most = 0;
      for (const float value : own.values) most = std::max(most, std::abs(value));
      EXPECT_GT(found.edges.back(), most);
      EXPECT_LE(found.edges.back() / 2, most) << "half of the range is used";
    }
  }

  Checkpoint checkpoint_;
  Made made_;
  std::vector<std::int32_t> corpus_;
};

TEST_F(Indexed, EqualsABruteForcePass) {
  expect_brute_force(FeatureIndex(index(folder("brute"))));
  made_.own.selection = {};  // most features are active at most tokens
  expect_brute_force(FeatureIndex(index(folder("dense"))));
}

TEST_F(Indexed, CountsNegativeActivationsAndKeepsPositiveMaxima) {
  made_.own.selection = {.kind = FeatureSelection::Kind::abstopk, .k = 5};
  const FeatureIndex index(this->index(folder("signed")));
  expect_brute_force(index);
  EXPECT_EQ(index.dashboard(0).edges.front(), -index.dashboard(0).edges.back());
}

TEST_F(Indexed, OfEqualWindowsTheFirstComesFirst) {
  const FeatureIndex index(this->index(folder("equal")));
  bool has_both = false;
  for (std::int64_t f = 0; f < kFeatures; ++f) {
    const std::vector<FeatureContext> contexts = index.dashboard(f).contexts;
    for (std::size_t i = 0; i + 1 < contexts.size(); ++i) {
      if (contexts[i].ids != contexts[i + 1].ids) continue;
      EXPECT_EQ(contexts[i].start, 12);
      EXPECT_EQ(contexts[i + 1].start, 48);
      has_both = true;
    }
  }
  EXPECT_TRUE(has_both);
}

TEST_F(Indexed, LogitsAreProductsWithTheUnembedding) {
  const FeatureIndex index(this->index(folder("logits")));
  const Model& model = *checkpoint_.model;
  const ModelConfig& config = model.config();
  const Param& head = config.head.tied ? model.params().embed : model.params().unembed.weight;
  const auto element = [](const Param& m, std::int64_t r, std::int64_t c) {
    float value = 0;
    std::memcpy(&value, m.view.at(r, c), sizeof(value));
    return static_cast<double>(value);
  };
  for (const std::int64_t f : {std::int64_t{0}, std::int64_t{17}, kFeatures - 1}) {
    std::vector<std::pair<double, std::int32_t>> weights;
    for (std::int32_t id = 0; id < config.vocab_size; ++id) {
      double sum = 0;
      for (std::int64_t c = 0; c < config.d_model; ++c) sum += element(made_.own.decoder, f, c) * element(head, id, c);
      weights.emplace_back(sum, id);
    }
    std::ranges::sort(weights);
    const ExtremeLogits found = index.dashboard(f).logits;
    ASSERT_EQ(found.top.size(), 10U);
    ASSERT_EQ(found.bottom.size(), 10U);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(found.bottom[i].id, weights[i].second);
      EXPECT_NEAR(found.bottom[i].weight, weights[i].first, 1e-5);
      EXPECT_EQ(found.top[i].id, weights[weights.size() - 1 - i].second);
      EXPECT_NEAR(found.top[i].weight, weights[weights.size() - 1 - i].first, 1e-5);
    }
  }
}

TEST_F(Indexed, HasTheSameBytesOnAnyThreadsAndInAnyChunks) {
  const std::string bytes = bytes_of(index(folder("bytes")));
  EXPECT_GT(bytes.size(), 1000U);
  EXPECT_EQ(bytes_of(index(folder("bytes3"), 3)), bytes);
  EXPECT_EQ(bytes_of(index(folder("chunks"), 2, 5)), bytes);
}

/// Thrown where a process is killed.
struct Killed {};

TEST_F(Indexed, AnyInterruptionLeavesTheSameBytes) {
  const std::string bytes = bytes_of(index(folder("whole")));
  ThreadPool pool(2);
  const Applied applied = dictionaries();
  for (const std::int64_t last : {1, 2, 5, 12}) {  // the windows before the job is killed
    for (const std::int64_t save_every : {std::int64_t{1}, std::int64_t{2}, std::int64_t{5}}) {
      const std::string path = folder("killed");
      std::int64_t n = 0;
      for (int part = 0; part < 2; ++part) {
        FeatureIndexer indexer(context(pool, applied), path, options(save_every));
        EXPECT_EQ(indexer.windows(), n / save_every * save_every);
        n = indexer.windows();
        EXPECT_THROW(indexer.read(std::ssize(corpus_),
                                  [&](std::int64_t, std::int64_t) {
                                    if (++n >= last) throw Killed();
                                  }),
                     Killed);
      }
      EXPECT_FALSE(fs::exists(file_in(path)));
      FeatureIndexer indexer(context(pool, applied), path, options(save_every));
      indexer.read(std::ssize(corpus_), {});
      indexer.finish({});
      EXPECT_EQ(bytes_of(file_in(path)), bytes) << last << ", " << save_every;
      EXPECT_FALSE(fs::exists(unfinished_folder(path)));
    }
  }
}

TEST_F(Indexed, IsWrittenAgainAfterAKillWhileItIsWritten) {
  const std::string bytes = bytes_of(index(folder("once")));
  ThreadPool pool(1);
  const Applied applied = dictionaries();
  const std::string path = folder("twice");
  FeatureIndexer(context(pool, applied), path, options()).read(std::ssize(corpus_), {});
  {  // logits and a part of more of them
    FeatureIndexer indexer(context(pool, applied), path, options());
    EXPECT_THROW(indexer.finish([](std::int64_t, std::int64_t) { throw Killed(); }), Killed);
  }
  std::ofstream(unfinished_folder(path) + "/logits-0.bin", std::ios::app) << "half a record";
  std::ofstream(unfinished_folder(path) + "/contexts-0.bin", std::ios::app) << "half a context";
  FeatureIndexer(context(pool, applied), path, options()).finish({});
  EXPECT_EQ(bytes_of(file_in(path)), bytes);
}

TEST_F(Indexed, GoesOnOnlyWithTheSameModelAndSettings) {
  ThreadPool pool(1);
  const Applied applied = dictionaries();
  const std::string path = folder("other");
  FeatureIndexer(context(pool, applied), path, options()).read(24, {});
  IndexOptions others = options();
  others.settings["window"] = 13;
  EXPECT_THROW(FeatureIndexer(context(pool, applied), path, others), BadInput);
  made_.own.encoder_bias = made_.vector(kFeatures);
  EXPECT_THROW(FeatureIndexer(context(pool, applied), path, options()), BadInput);
}

TEST_F(Indexed, IsShownAsJson) {
  const FeatureIndex index(this->index(folder("json")));
  std::int64_t feature = 0;
  while (index.dashboard(feature).contexts.size() < 3) ++feature;
  const FeatureDashboard dashboard = index.dashboard(feature);
  const Json json = dashboard_json(index, dashboard);
  EXPECT_EQ(json["contexts"].size(), 3U);
  const Json& first = json["contexts"][0];
  EXPECT_EQ(first["values"][first["position"].get<std::size_t>()], first["max"]);
  EXPECT_EQ(first["ids"].size(), first["values"].size());
  EXPECT_EQ(first["texts"][0], fmt::format(" t{}", first["ids"][0].get<int>()));
  EXPECT_EQ(json["histogram"]["edges"].size(), json["histogram"]["counts"].size() + 1);
  EXPECT_EQ(json["density"], dashboard.density);
  EXPECT_EQ(json["top_logits"].size(), 10U);
  EXPECT_GE(json["top_logits"][0]["weight"], json["top_logits"][1]["weight"]);
  EXPECT_LE(json["bottom_logits"][0]["weight"], json["bottom_logits"][1]["weight"]);
  EXPECT_THROW(index.dashboard(kFeatures), BadInput);
  EXPECT_THROW(index.dashboard(-1), BadInput);
}

/// Reads all of an index that may be damaged.
void read_all(const std::string& path) {
  const FeatureIndex index(path);
  index.dead();
  for (std::int64_t f = 0; f < std::min<std::int64_t>(index.d_sae(), 100); ++f) {
    dashboard_json(index, index.dashboard(f)).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

TEST_F(Indexed, DamagedFilesAreRefused) {
  const std::string path = index(folder("damaged")), bytes = bytes_of(path);
  read_all(path);
  const std::string copy = testing::TempDir() + "/damaged.safetensors";
  const auto attempt = [&](const std::string& changed) {
    std::ofstream(copy, std::ios::binary) << changed;
    try {
      read_all(copy);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  for (std::size_t size = 0; size < bytes.size(); size += bytes.size() / 37) {
    EXPECT_FALSE(attempt(bytes.substr(0, size))) << size;
  }
  int n_refused = 0;
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const std::size_t data = 8 + header_bytes;
  for (std::size_t i = 0; i < 150; ++i) {  // among the numbers
    std::string changed = bytes;
    const auto at = data + static_cast<std::size_t>(uniform(7, 0, i) * static_cast<double>(bytes.size() - data - 8));
    for (std::size_t b = 0; b < 8; ++b) changed[at + b] = i % 2 == 0 ? '\xFF' : '\x7F';
    n_refused += attempt(changed) ? 0 : 1;
  }
  EXPECT_GT(n_refused, 40);
  for (std::size_t i = 0; i < 150; ++i) {  // in the header
    std::string changed = bytes;
    changed[static_cast<std::size_t>(uniform(8, 0, i) * static_cast<double>(data))] = static_cast<char>('0' + i % 10);
    attempt(changed);
  }
}

TEST_F(Indexed, DamagedProgressIsRefused) {
  ThreadPool pool(1);
  const Applied applied = dictionaries();
  const std::string path = folder("progress");
  FeatureIndexer(context(pool, applied), path, options()).read(48, {});
  const std::string contexts = unfinished_folder(path) + "/contexts-0.bin", whole = bytes_of(contexts);
  std::ofstream(contexts, std::ios::binary) << whole.substr(0, whole.size() / 2);
  EXPECT_THROW(FeatureIndexer(context(pool, applied), path, options()), BadCheckpoint);
  std::ofstream(contexts, std::ios::binary) << std::string(whole.size(), '\xFF');
  EXPECT_THROW(FeatureIndexer(context(pool, applied), path, options()).finish({}), BadCheckpoint);
  const std::string progress = unfinished_folder(path) + "/progress.safetensors";
  const std::string known = bytes_of(progress);
  std::ofstream(progress, std::ios::binary) << known.substr(0, known.size() - 40);
  EXPECT_THROW(FeatureIndexer(context(pool, applied), path, options()), BadCheckpoint);
}

}  // namespace
}  // namespace vitrine::test
