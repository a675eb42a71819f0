// The same bits: results do not depend on how the work is divided, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "support/run.h"

namespace vitrine::test {
namespace {

struct Setting {
  std::string golden;
  Isa isa;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.golden << ", " << name_of(setting.isa); }

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const std::string& golden : golden_cases()) {
    if (golden == "llama_long") continue;
    for (const Isa isa : available_isas()) all.push_back({golden, isa});
  }
  return all;
}

class SameBits : public testing::TestWithParam<Setting> {
 protected:
  SameBits()
      : checkpoint_(golden_checkpoint(GetParam().golden)),
        model_(*checkpoint_.model),
        kernels_(kernels_for(GetParam().isa)),
        ids_(golden_ids(GetParam().golden)),
        alone_(logits_of(model_, ids_, {.kernels = &kernels_})) {}

  Checkpoint checkpoint_;
  const Model& model_;
  const Kernels& kernels_;
  std::vector<std::int32_t> ids_;
  std::vector<float> alone_;  // the whole text at once, one thread
};

TEST_P(SameBits, PrefillEqualsChunksEqualsDecode) {
  for (const std::int64_t chunk : {1, 2, 3, 7, 64}) {
    EXPECT_TRUE(same_bits(alone_, chunked_logits_of(model_, ids_, chunk, {.kernels = &kernels_})))
        << "chunks of " << chunk;
  }
}

TEST_P(SameBits, WithRoundedCaches) {
  const std::vector<CacheLayerConfig> layers = cache_layers(model_.config());
  const bool has_keys = std::any_of(layers.begin(), layers.end(), [](const auto& layer) { return layer.kv; });
  if (!has_keys) GTEST_SKIP() << "no keys and values";
  const KvTypes kRoundedTypes[] = {KvType::bf16, KvType::f16, KvType::int8, KvType::int4, {KvType::int8, KvType::int4}};
  for (const KvTypes types : kRoundedTypes) {
    const RunOptions o{.kernels = &kernels_, .kv_types = types};
    const std::vector<float> rounded = logits_of(model_, ids_, o);
    EXPECT_FALSE(same_bits(rounded, alone_)) << name_of(types.keys) << " has no effect";
    for (const std::int64_t chunk : {1, 3, 7}) {
      EXPECT_TRUE(same_bits(rounded, chunked_logits_of(model_, ids_, chunk, o)))
          << name_of(types.keys) << ", chunks of " << chunk;
    }
  }
}

TEST_P(SameBits, BlocksOfAnyLength) {
  for (const std::int64_t length : {1, 3, 5}) {
    for (const KvTypes types : {KvTypes(), KvTypes(KvType::int8, KvType::int4)}) {
      KvPool pool(std::int64_t{1} << 30, length);
      const RunOptions o{.kernels = &kernels_, .threads = 2, .kv_types = types, .kv_memory = &pool};
      const std::vector<float> whole = types == KvTypes() ? alone_ : logits_of(model_, ids_, o);
      for (const std::int64_t chunk : {1, 4, 64}) {
        EXPECT_TRUE(same_bits(whole, chunked_logits_of(model_, ids_, chunk, o)))
            << "blocks of " << length << ", chunks of " << chunk << ", " << name_of(types.keys);
      }
      EXPECT_EQ(pool.used_bytes(), 0);
    }
  }
}

TEST_P(SameBits, AnyNumberOfThreads) {
  for (const int threads : {2, 3, 5}) {
    EXPECT_TRUE(same_bits(alone_, logits_of(model_, ids_, {.kernels = &kernels_, .threads = threads}))) << threads;
    EXPECT_TRUE(same_bits(alone_, chunked_logits_of(model_, ids_, 3, {.kernels = &kernels_, .threads = threads})))
        << threads;
  }
}

/// Three sequences of different lengths in one forward, each with its own cache.
TEST_P(SameBits, InABatch) {
  const std::vector<std::vector<std::int32_t>> texts = {some_ids(model_, 5, 2), ids_, some_ids(model_, 11, 3)};
  const auto vocab_size = static_cast<std::size_t>(model_.config().vocab_size);
  ThreadPool pool(2);
  Arena arena;
  std::vector<KvCache> caches;
  for (const auto& text : texts)
    caches.push_back(model_.make_cache(static_cast<std::int64_t>(text.size()), KvType::f32));
  std::vector<std::vector<float>> logits(texts.size());
  const std::int64_t steps[] = {2, 5, 4};  // tokens of each sequence per forward
  for (;;) {
    Pass pass{{pool, kernels_, arena}, {}};
    std::vector<std::int32_t> batch;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::int64_t n = std::min(steps[i], caches[i].capacity() - caches[i].length());
      if (n == 0) continue;
      pass.segments.push_back({static_cast<std::int64_t>(batch.size()), n, caches[i].length(), &caches[i]});
      const auto from = texts[i].begin() + caches[i].length();
      batch.insert(batch.end(), from, from + n);
      owner.insert(owner.end(), static_cast<std::size_t>(n), i);
    }
    if (batch.empty()) break;
    pass.logits = {LogitRequest::Rows::range, 0, static_cast<std::int64_t>(batch.size()),
                   [&](std::int64_t first, const Tensor& t) {
                     for (std::int64_t row = 0; row < t.rows(); ++row) {
                       std::vector<float>& out = logits[owner[static_cast<std::size_t>(first + row)]];
                       out.insert(out.end(), t.row(row), t.row(row) + vocab_size);
                     }
                   }};
    model_.forward(pass, batch);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(same_bits(logits[i], logits_of(model_, texts[i], {.kernels = &kernels_}))) << "sequence " << i;
  }
}

TEST_P(SameBits, LogitsOfTheLastRowAlone) {
  ThreadPool pool(1);
  Arena arena;
  std::vector<float> last;
  const auto n = static_cast<std::int64_t>(ids_.size());
  Pass pass{{pool, kernels_, arena}, {{0, n, 0, nullptr}}, {}};
  pass.logits = {LogitRequest::Rows::last_of_segments, 0, 0,
                 [&](std::int64_t, const Tensor& t) { last.assign(t.data, t.data + t.count()); }};
  model_.forward(pass, ids_);
  EXPECT_TRUE(same_bits(last, {alone_.end() - model_.config().vocab_size, alone_.end()}));
}

TEST_P(SameBits, WithTaps) {
  const std::vector<std::vector<std::string>> subsets = {
      {"*"},       {"*.hook_pattern"}, {"*.attn.hook_scores_raw", "hook_logits"}, {"*hook_normalized"},
      {"*_input"}, {"*.hook_result"}};
  for (const auto& globs : subsets) {
    Probe probe(model_, globs);
    EXPECT_TRUE(same_bits(alone_, logits_of(model_, ids_, {.kernels = &kernels_, .threads = 2, .taps = &probe})))
        << globs[0];
    Probe cached(model_, globs);
    EXPECT_TRUE(same_bits(alone_, chunked_logits_of(model_, ids_, 5, {.kernels = &kernels_, .taps = &cached})))
        << globs[0];
  }
}

TEST_P(SameBits, EverySiteReplacedByItself) {
  Probe all(model_, {"*"});
  logits_of(model_, ids_, {.kernels = &kernels_, .taps = &all});
  for (const auto& [name, value] : all.values) {
    Probe probe(model_, {name}, Probe::Replace::by_itself);
    EXPECT_TRUE(same_bits(alone_, logits_of(model_, ids_, {.kernels = &kernels_, .taps = &probe}))) << name;
  }
  Probe probe(model_, {"*"}, Probe::Replace::by_itself);
  EXPECT_TRUE(same_bits(alone_, chunked_logits_of(model_, ids_, 4, {.kernels = &kernels_, .taps = &probe})));
}

TEST_P(SameBits, EverySiteIsVisitedOnce) {
  Probe probe(model_, {"*"});
  logits_of(model_, ids_, {.kernels = &kernels_, .taps = &probe});
  EXPECT_EQ(probe.order.size(), probe.values.size()) << "a site was visited twice";
}

/// The sites of a decoded token equal the last rows of the sites of the whole text, including all earlier keys.
TEST_P(SameBits, SitesOfADecodedTokenAreRowsOfTheWhole) {
  Probe whole(model_, {"*.hook_pattern", "*.hook_attn_scores", "*.hook_resid_post"}), step(model_, {"*"});
  logits_of(model_, ids_, {.kernels = &kernels_, .taps = &whole});
  chunked_logits_of(model_, ids_, 1, {.kernels = &kernels_, .taps = &step});  // values of the last token remain
  for (const auto& [name, value] : whole.values) {
    const Value& last = step.values.at(name);
    const bool by_head = value.shape.rank() == 3;
    const std::int64_t heads = by_head ? value.shape[0] : 1, rows = value.shape[by_head ? 1 : 0],
                       cols = value.shape[by_head ? 2 : 1];
    ASSERT_EQ(last.data.size(), static_cast<std::size_t>(heads * cols)) << name;
    for (std::int64_t head = 0; head < heads; ++head) {
      const auto from = value.data.begin() + (head * rows + rows - 1) * cols;
      const auto to = last.data.begin() + head * cols;
      EXPECT_TRUE(same_bits({from, from + cols}, {to, to + cols})) << name << ", head " << head;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SameBits, testing::ValuesIn(settings()), [](const auto& param_info) {
  return param_info.param.golden + "_" + std::string(name_of(param_info.param.isa));
});

TEST(SameBitsAcrossIsas, EveryInstructionSet) {
  for (const std::string& golden : golden_cases()) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    const std::vector<std::int32_t> ids = golden_ids(golden);
    const std::vector<float> scalar = logits_of(*checkpoint.model, ids, {.kernels = &kernels_for(Isa::scalar)});
    for (const Isa isa : available_isas()) {
      EXPECT_TRUE(same_bits(scalar, logits_of(*checkpoint.model, ids, {.kernels = &kernels_for(isa)})))
          << golden << ", " << name_of(isa);
    }
  }
}

}  // namespace
}  // namespace vitrine::test
