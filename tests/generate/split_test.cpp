// A model on several ranks, as threads of this process: the bits of one process.

#include <gmock/gmock.h>

#include <type_traits>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/adapters/create.h"
#include "checkpoint/gguf/export.h"
#include "generate/generator.h"
#include "generate/pipeline_parallel.h"
#include "generate/score.h"
#include "generate/tensor_parallel.h"
#include "model/mixers/attention/split_heads.h"
#include "model/mixers/experts/sites.h"
#include "model/mixers/ffn/sites.h"
#include "ops/attention_sites.h"
#include "support/controls.h"
#include "support/data.h"
#include "support/local_ranks.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

struct Written {
  std::vector<float> logits;
  std::vector<std::int32_t> ids;
};

void expect_same(const Written& a, const Written& b) {
  EXPECT_TRUE(same_bits(a.logits, b.logits));
  EXPECT_EQ(a.ids, b.ids);
}

/// What to run: the same on all ranks.
struct Task {
  std::shared_ptr<const Model> model;
  KvTypes kv{};
  const Adapter* adapter = nullptr;

  std::vector<std::int32_t> text() const { return some_ids(*model, 12); }
};

/// What the encoder of a model reads, if it has one.
std::vector<std::int32_t> source_of(const Model& model) {
  if (!model.config().encoder) return {};
  std::vector<std::int32_t> ids = some_ids(model, 8, 2);
  for (std::int32_t& id : ids) id %= static_cast<std::int32_t>(model.config().encoder->vocab_size);
  return ids;
}

/// The logits of a text, and, if the model can continue it, what two sequences at once continue it with.
Written run(const Task& task, DistributedModel* split = nullptr) {
  ThreadPool pool(1);
  const Model& model = split != nullptr ? *split->model() : *task.model;
  GenerateContext context{&model, &pool, &default_kernels(), nullptr, task.kv};
  context.split = split;
  std::vector<AppliedAdapter> adapters;
  if (task.adapter != nullptr) {
    const std::shared_ptr<const Adapter> own(std::shared_ptr<const void>(), task.adapter);
    adapters.push_back({split != nullptr ? split->part_of(*task.adapter) : own, 0.5});
  }
  std::vector<AppliedControl> controls;
  const ModelConfig& config = task.model->config();
  if (!config.encoder && !config.altup) controls.push_back({some_control(config, 0.2f), 0.7});
  context.modifiers = {adapters, controls};
  const std::vector<std::int32_t> text = task.text(), source = source_of(model);
  Written written;
  score(context, {text, {}, source}, [&](std::int64_t, const Tensor& logits) {
    written.logits.insert(written.logits.end(), logits.data, logits.data + logits.count());
  });
  if (is_bidirectional(model.config())) return written;
  std::vector<GenerateRequest> requests(2);
  for (std::size_t i = 0; i < 2; ++i) {
    requests[i].source = source;
    requests[i].prompt.assign(text.begin(), text.end() - static_cast<std::ptrdiff_t>(3 * i));
    requests[i].max_tokens = 5;
    requests[i].sampling.temperature = 1;
    requests[i].seed = i;
  }
  for (const GenerateResult& result : generate(context, requests, {}, nullptr)) {
    written.ids.insert(written.ids.end(), result.ids.begin(), result.ids.end());
  }
  return written;
}

/// Calls work(n) for each number of ranks from 2 on among which the model can be divided: its layers, or query heads.
template <class Split, class Work>
void for_ranks(const Model& model, Work work) {
  const bool by_layers = std::is_same_v<Split, PipelineParallelModel>;
  const auto most = [&](const StackConfig& c) {
    return by_layers ? static_cast<std::int64_t>(c.n_layers()) : heads_of(c, 0)->n_heads;
  };
  const ModelConfig& c = model.config();
  const std::int64_t n_most = c.encoder ? std::min(most(c), most(*c.encoder)) : most(c);
  for (int n = 2; n <= n_most; ++n) {
    SCOPED_TRACE(fmt::format("{} ranks, {}", n, by_layers ? "layers" : "heads"));
    work(n);
  }
}

template <class Split>
void expect_bits_of_one_process(const Task& task) {
  const Written one = run(task);
  for_ranks<Split>(*task.model, [&](int n) {
    run_local_ranks(n, [&](Ranks& ranks) {
      Split split(ranks, task.model);
      expect_same(run(task, &split), one);
    });
  });
}

constexpr const char* kFamilies[] = {"gpt2",
                                     "gemma2",
                                     "mixtral",
                                     "qwen3",
                                     "llama_gqa_bf16_sharded",
                                     "cohere_qk_norm",
                                     "falcon_new",
                                     "qwen2_moe",
                                     "falcon",
                                     "phi3_long",
                                     "olmo2",
                                     "qwen2_window",
                                     "gemma3",
                                     "cohere2_layer_types",
                                     "deepseek_v3",
                                     "deepseek_v2",
                                     "gemma4_moe"};
constexpr const char* kFamiliesWithSharedKeys[] = {"gemma4", "gemma3n"};
constexpr const char* kFamiliesWithStates[] = {"mamba",       "mamba2",     "jamba",    "granitemoehybrid",
                                               "nemotron_h",  "falcon_h1",  "lfm2_moe", "qwen3_next",
                                               "olmo_hybrid", "kimi_linear"};
constexpr const char* kFamiliesWithEncoders[] = {
    "masked/bert_pretraining", "masked/distilbert", "pairs/bart", "pairs/t5", "pairs/mt5", "pairs/marian_two"};

template <class Split>
class Ranked : public testing::Test {};
struct SplitNames {
  template <class Split>
  static std::string GetName(int) {
    return std::is_same_v<Split, PipelineParallelModel> ? "Layers" : "Heads";
  }
};
using Splits = testing::Types<PipelineParallelModel, TensorParallelModel>;
TYPED_TEST_SUITE(Ranked, Splits, SplitNames);

TYPED_TEST(Ranked, HasTheBitsOfOneProcess) {
  for (const char* const name : kFamilies) {
    SCOPED_TRACE(name);
    const std::shared_ptr<const Model> model = golden_checkpoint(name).model;
    for (const KvTypes kv : {KvTypes(), KvTypes{KvType::int8, KvType::int4}, KvTypes{KvType::bf16, KvType::f16}}) {
      expect_bits_of_one_process<TypeParam>({model, kv});
    }
  }
}

/// Ranks of layers have neither the keys of earlier layers nor the inputs of per-layer embeddings.
TYPED_TEST(Ranked, OfLayersThatReadMoreThanTheStream) {
  for (const char* const name : kFamiliesWithSharedKeys) {
    SCOPED_TRACE(name);
    const std::shared_ptr<const Model> model = golden_checkpoint(name).model;
    if constexpr (std::is_same_v<TypeParam, TensorParallelModel>) {
      for (const KvTypes kv : {KvTypes(), KvTypes{KvType::int8, KvType::int4}}) {
        expect_bits_of_one_process<TypeParam>({model, kv});
      }
    } else {
      run_local_ranks(2, [&](Ranks& ranks) { EXPECT_THROW(TypeParam(ranks, model), Error); });
    }
  }
}

/// Each rank keeps the states of its layers; rows of a state are not divided among ranks.
TYPED_TEST(Ranked, OfLayersWithStates) {
  for (const char* const name : kFamiliesWithStates) {
    SCOPED_TRACE(name);
    const std::shared_ptr<const Model> model = golden_checkpoint(name).model;
    if constexpr (std::is_same_v<TypeParam, PipelineParallelModel>) {
      for (const KvTypes kv : {KvTypes(), KvTypes{KvType::int8, KvType::int4}}) {
        expect_bits_of_one_process<TypeParam>({model, kv});
      }
    } else {
      try {
        run_local_ranks(2, [&](Ranks& ranks) { TypeParam(ranks, model); });
        ADD_FAILURE();
      } catch (const Unsupported& e) {
        EXPECT_THAT(e.what(), testing::ContainsRegex("--split heads.*is not divided by heads: use --split layers"));
      }
    }
  }
}

/// Layers that share parameters are one group of parameters and several places of a config.
TYPED_TEST(Ranked, RefusesLayersThatShareParameters) {
  const std::shared_ptr<const Model> model = golden_checkpoint("heads/albert_words").model;
  EXPECT_THROW(run_local_ranks(2, [&](Ranks& ranks) { TypeParam(ranks, model); }), Unsupported);
}

TYPED_TEST(Ranked, HasTheBitsOfOneProcessWithAnEncoder) {
  for (const char* const name : kFamiliesWithEncoders) {
    SCOPED_TRACE(name);
    const std::shared_ptr<const Model> model = golden_checkpoint(name).model;
    expect_bits_of_one_process<TypeParam>({model});
    if (!is_bidirectional(model->config())) expect_bits_of_one_process<TypeParam>({model, KvType::int8});
  }
}

std::string default_folder() { return source_dir() + "/models/default"; }

TYPED_TEST(Ranked, HasTheBitsOfOneProcessWithQuantizedWeights) {
  const TempFolder temp;
  ThreadPool pool(2);
  const Checkpoint source = load_checkpoint(default_folder());
  expect_bits_of_one_process<TypeParam>({source.model});  // bf16
  for (const DType type : {DType::q8_0, DType::q4_0, DType::q4_k}) {
    SCOPED_TRACE(name_of(type));
    write_gguf(temp / "model.gguf", source, type, {}, pool);
    expect_bits_of_one_process<TypeParam>({load_checkpoint(temp / "model.gguf").model, KvType::int8});
  }
}

/// An adapter that changes every map: LoRA, or DoRA with norms that are not those of the weights.
std::shared_ptr<LoadedAdapter> some_adapter(const Checkpoint& base, bool is_dora, std::vector<float>& memory) {
  NewAdapter options;
  options.rank = 3;
  const WritableAdapter made = new_adapter(base, options, 3);
  for (const AdapterMatrix& matrix : made.matrices) {
    for (std::int64_t i = 0; i < matrix.param->shape.count(); ++i) {
      matrix.values[i] = 0.05F * static_cast<float>(i * 7 % 11 - 5);
    }
  }
  memory.assign(4096, 0.0F);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = 1.0F + 0.01F * static_cast<float>(i % 13);
  if (!is_dora) return made.adapter;
  for (auto& [name, low] : made.adapter->maps) {
    const std::int64_t n = low.b.shape[0];
    std::vector<double> squares;
    for (std::int64_t i = 0; i < n; ++i) squares.push_back(1 + 0.1 * static_cast<double>(i % 5));
    const Param vector{"", "", {n}, view_of(memory.data(), 1, n, n)};
    low.magnitudes = Magnitudes{vector, squares, squares, squares};
  }
  return made.adapter;
}

TYPED_TEST(Ranked, HasTheBitsOfOneProcessWithAdapters) {
  for (const std::string& folder : {default_folder(), source_dir() + "/tests/goldens/gpt2"}) {
    const Checkpoint base = load_checkpoint(folder);
    for (const bool is_dora : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", folder, is_dora ? "DoRA" : "LoRA"));
      std::vector<float> memory;
      const auto adapter = some_adapter(base, is_dora, memory);
      expect_bits_of_one_process<TypeParam>({base.model, {}, adapter.get()});
    }
  }
}

/// Taps that record every site, and change some.
class Writes : public Probe {
 public:
  Writes(const Model& model, bool changes) : Probe(model, {"*"}), changes_(changes) {}
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    const Tensor seen = Probe::visit(pass, id, value);
    const bool is_written = id.site == AttentionSite::rot_k || id.site == FfnSite::mlp_post ||
                            id.site == ExpertSite::expert_post || id.site == AttentionSite::pattern ||
                            id.site == Site::unembed_in || id.site == AttentionSite::result;
    if (!changes_ || !is_written) return seen;
    const Tensor changed = pass.tensor(value.shape);
    for (std::int64_t i = 0; i < value.count(); ++i) {
      changed.data[i] = value.data[i] * (i % 3 == 0 ? 0.5F : 1.0F);
    }
    return changed;
  }
  void visit_step(Pass&, const SiteId&, const Tensor& value, std::int64_t first, std::int64_t count,
                  const Tensor&) override {
    for (std::int64_t i = first; changes_ && i < first + count; ++i) value.data[i] *= i % 3 == 0 ? 0.5F : 1.0F;
  }

 private:
  bool changes_;
};

void trace(const Model& model, const std::vector<std::int32_t>& text, Taps& taps, ModelSplit* split) {
  ThreadPool pool(1);
  GenerateContext context{&model, &pool, &default_kernels()};
  context.split = split;
  context.taps = &taps;
  Arena arena;
  const auto n = static_cast<std::int64_t>(text.size());
  const std::vector<std::int32_t> source = source_of(model);
  Pass pass = context.make_pass(arena, {{0, n, 0, nullptr, source.empty() ? -1 : 0}});
  if (!source.empty()) pass.sources = {{0, static_cast<std::int64_t>(source.size())}};
  pass.logits = {LogitRequest::Rows::range, 0, n, {}};
  model.forward(pass, {text, {}, source});
}

TYPED_TEST(Ranked, ShowsTheTapsOfRankZeroTheValuesOfOneProcess) {
  std::vector<std::string> names(std::begin(kFamilies), std::end(kFamilies));
  names.insert(names.end(), std::begin(kFamiliesWithEncoders), std::end(kFamiliesWithEncoders));
  if (std::is_same_v<TypeParam, PipelineParallelModel>) {
    names.insert(names.end(), std::begin(kFamiliesWithStates), std::end(kFamiliesWithStates));
  }
  for (const std::string& name : names) {
    const std::shared_ptr<const Model> model = golden_checkpoint(name).model;
    const std::vector<std::int32_t> text = some_ids(*model, 7);
    for (const bool changes : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", name, changes ? ", changed" : ""));
      Writes one(*model, changes);
      trace(*model, text, one, nullptr);
      for_ranks<TypeParam>(*model, [&](int n) {
        run_local_ranks(n, [&](Ranks& ranks) {
          TypeParam split(ranks, model);
          Writes own(*model, changes);
          trace(*split.model(), text, own, &split);
          if (!ranks.is_first()) return;
          EXPECT_EQ(own.order, one.order);
          for (const auto& [site, value] : one.values) {
            EXPECT_EQ(own.values[site].shape, value.shape) << site;
            EXPECT_TRUE(same_bits(own.values[site].data, value.data)) << site;
          }
        });
      });
    }
  }
}

TYPED_TEST(Ranked, KeepsOnlyItsPartOfTheWeights) {
  const Checkpoint checkpoint = load_checkpoint(default_folder());
  run_local_ranks(2, [&](Ranks& ranks) {
    const TypeParam split(ranks, checkpoint.model);
    const ModelConfig& whole = checkpoint.model->config();
    EXPECT_EQ(split.model()->params().unembed.weight.shape, (Shape{whole.vocab_size / 2, whole.d_model}));
    const Shape up = std::get<FfnParams>(split.model()->params().blocks[0].sublayers[1].what).w_up.weight.shape;
    EXPECT_EQ(up[0],
              find<DenseConfig>(whole.blocks[0])->d_ff / (std::is_same_v<TypeParam, TensorParallelModel> ? 2 : 1));
  });
}

TYPED_TEST(Ranked, RefusesPassesThatItDoesNotDivide) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  run_local_ranks(2, [&](Ranks& ranks) {
    TypeParam split(ranks, checkpoint.model);
    ThreadPool pool(1);
    Arena arena;
    const std::vector<std::int32_t> text = some_ids(*checkpoint.model, 3);
    GenerateContext context{split.model().get(), &pool, &default_kernels()};
    context.split = &split;
    Pass pass = context.make_pass(arena, {{0, 3}});
    pass.receive_hidden = [](const Tensor&) {};
    EXPECT_THROW(split.model()->forward(pass, text), Unsupported);
  });
}

/// The first query heads of all parts, and the end.
std::vector<std::int64_t> divide_heads(std::int64_t n_heads, std::int64_t n_kv_heads, int n) {
  AttendConfig c;
  c.n_heads = n_heads;
  c.n_kv_heads = n_kv_heads;
  std::vector<std::int64_t> heads;
  for (int r = 0; r <= n; ++r) heads.push_back(first_head(c, n, r));
  return heads;
}

TEST(TensorParallelModel, AreWholeGroupsOrPartsOfOne) {
  EXPECT_EQ(divide_heads(8, 8, 3), (std::vector<std::int64_t>{0, 2, 5, 8}));
  EXPECT_EQ(divide_heads(8, 4, 3), (std::vector<std::int64_t>{0, 2, 4, 8}));
  EXPECT_EQ(divide_heads(8, 2, 4), (std::vector<std::int64_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(divide_heads(6, 2, 3), (std::vector<std::int64_t>{0, 3, 4, 6}));
  EXPECT_EQ(divide_heads(6, 2, 4), (std::vector<std::int64_t>{0, 1, 3, 4, 6}));
  EXPECT_EQ(divide_heads(6, 2, 5), (std::vector<std::int64_t>{0, 1, 3, 4, 5, 6}));
  EXPECT_EQ(divide_heads(6, 2, 6), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(divide_heads(6, 1, 5), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 6}));
}

/// For all sizes: no part is empty, and none has heads of a K/V head that it does not have alone or in part.
TEST(TensorParallelModel, AreDividedAmongAnyNumberOfRanks) {
  for (std::int64_t n_kv_heads = 1; n_kv_heads <= 8; ++n_kv_heads) {
    for (std::int64_t group = 1; group <= 6; ++group) {
      for (int n = 1; n <= n_kv_heads * group; ++n) {
        SCOPED_TRACE(fmt::format("{} K/V heads of {}, {} ranks", n_kv_heads, group, n));
        const std::vector<std::int64_t> heads = divide_heads(n_kv_heads * group, n_kv_heads, n);
        EXPECT_EQ(heads.front(), 0);
        EXPECT_EQ(heads.back(), n_kv_heads * group);
        for (std::size_t r = 1; r < heads.size(); ++r) {
          EXPECT_LT(heads[r - 1], heads[r]);
          const bool is_whole = heads[r - 1] % group == 0 && heads[r] % group == 0;
          EXPECT_TRUE(is_whole || heads[r - 1] / group == (heads[r] - 1) / group);
        }
      }
    }
  }
}

TEST(TensorParallelModel, NeedAQueryHeadEach) {
  const Checkpoint checkpoint = golden_checkpoint("falcon");
  try {
    run_local_ranks(4, [&](Ranks& ranks) { TensorParallelModel(ranks, checkpoint.model); });
    ADD_FAILURE();
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("at most as many ranks as query heads (3), got 4"));
  }
}

TEST(PipelineParallelModel, AreBalancedByBytes) {
  const std::vector<std::int64_t> same(8, 10);
  EXPECT_EQ(divide_layers(same, 1), (std::vector{0, 8}));
  EXPECT_EQ(divide_layers(same, 4), (std::vector{0, 2, 4, 6, 8}));
  EXPECT_EQ(divide_layers(same, 8), (std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  const std::vector<std::int64_t> others = {10, 10, 10, 10, 10, 10, 10, 30};
  EXPECT_EQ(divide_layers(others, 2), (std::vector{0, 5, 8}));
  EXPECT_EQ(divide_layers(others, 3), (std::vector{0, 3, 6, 8}));
}

TEST(PipelineParallelModel, NeedALayerEach) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  const auto n = static_cast<int>(checkpoint.model->config().n_layers()) + 1;
  try {
    run_local_ranks(n, [&](Ranks& ranks) { PipelineParallelModel(ranks, checkpoint.model); });
    ADD_FAILURE();
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(fmt::format("at most as many ranks as layers ({}), got {}", n - 1, n)));
  }
}

}  // namespace
}  // namespace vitrine::test
