// What continues from a state file has the bits of what reads the whole text; files that do not fit are refused.
#include "checkpoint/state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/temp_folder.h"
#include "generate/score.h"
#include "support/run.h"
#include "support/state_models.h"

namespace vitrine::test {
namespace {

std::vector<float> fed(const GenerateContext& context, KvCache& cache, std::span<const std::int32_t> ids) {
  std::vector<float> logits;
  feed(context, cache, {ids}, 0,
       [&](std::int64_t, const Tensor& rows) { logits.insert(logits.end(), rows.data, rows.data + rows.count()); });
  return logits;
}

/// Logits of the last tokens, read after a state file of the first `n`.
std::vector<float> continued(const GenerateContext& context, std::span<const std::int32_t> ids, std::size_t n,
                             const std::string& path) {
  KvCache cache = context.make_cache(std::ssize(ids));
  fed(context, cache, ids.first(n));
  StateWriter(path, *context.model).write(cache, *context.kernels);
  const auto rest = static_cast<std::int64_t>(ids.size() - n);
  const auto again = read_state(path, *context.model, rest, context.kv_types, *context.kernels);
  EXPECT_EQ(again->length(), static_cast<std::int64_t>(n));
  return fed(context, *again, ids.subspan(n));
}

void expect_same_bits(const Model& model, KvTypes types, const std::string& path, const std::string& name) {
  ThreadPool pool(2);
  GenerateContext context{&model, &pool, &default_kernels()};
  context.kv_types = types;
  const std::vector<std::int32_t> ids = some_ids(model, 60, 1);
  KvCache cache = context.make_cache(60);
  const std::vector<float> whole = fed(context, cache, ids);
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{33}, std::size_t{59}}) {
    const std::vector<float> rest(whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 60 * n), whole.end());
    EXPECT_TRUE(same_bits(continued(context, ids, n, path), rest)) << name << " after " << n;
  }
}

TEST(StateFile, ContinuesWithTheBitsOfTheWholeText) {
  const TempFolder folder;
  for (const std::string& name : kStateModels) {
    const Checkpoint checkpoint = state_model(name, folder / name);
    for (const KvTypes types : {KvTypes(KvType::f32), KvTypes(KvType::bf16, KvType::f16)}) {
      expect_same_bits(*checkpoint.model, types, folder / "state", name);
    }
  }
}

/// Windows, chunks, latent attention, frequencies that depend on the length; and heads of integers, which are rotated.
TEST(StateFile, HoldsKeysAndValuesOfEveryKind) {
  const TempFolder folder;
  for (const char* const golden :
       {"llama_gqa_bf16_sharded", "gemma3", "deepseek_v3", "phi3_long", "llama_dynamic_rope"}) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    for (const KvTypes types : {KvTypes(KvType::f32), KvTypes(KvType::int8, KvType::int4)}) {
      if (is_integer(types.keys) && std::string(golden) == "deepseek_v3") continue;  // one type for both
      expect_same_bits(*checkpoint.model, types, folder / "state", golden);
    }
  }
}

std::vector<std::int64_t> shape_of(const SafetensorsFile& file, const std::string& name) {
  const auto found = file.tensors().find(name);
  return found != file.tensors().end() ? found->second.shape : std::vector<std::int64_t>{-1};
}

/// The file of a model after five tokens.
class StateFileOf {
 public:
  explicit StateFileOf(const std::string& name) : checkpoint_(state_model(name, folder_ / "m")) {
    ThreadPool pool(1);
    const GenerateContext context{checkpoint_.model.get(), &pool, &default_kernels()};
    cache.emplace(context.make_cache(20));
    fed(context, *cache, some_ids(model(), 5, 1));
    StateWriter(path(), model()).write(*cache, default_kernels());
  }
  const Model& model() const { return *checkpoint_.model; }
  std::string path() const { return folder_ / "state"; }
  SafetensorsFile file() const { return SafetensorsFile::open(path()); }
  std::shared_ptr<KvCache> read(KvTypes types = {}) const {
    return read_state(path(), model(), 10, types, default_kernels());
  }
  std::string error(KvTypes types = {}) const {
    try {
      read(types);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  std::optional<KvCache> cache;

 private:
  const TempFolder folder_;
  const Checkpoint checkpoint_;
};

TEST(StateFile, HasTheLayoutsOfTheSites) {
  using Sizes = std::vector<std::int64_t>;
  const StateFileOf delta("qwen3_5_text"), mamba2("mamba2"), mamba("mamba"), conv("lfm2");
  EXPECT_EQ(shape_of(delta.file(), "blocks.0.linear_attn.state"), Sizes({6, 10, 14}));
  EXPECT_EQ(shape_of(delta.file(), "blocks.0.linear_attn.conv"), Sizes({3, 144}));
  EXPECT_EQ(shape_of(delta.file(), "blocks.2.attn.k"), Sizes({5, 2, 16}));
  EXPECT_EQ(shape_of(delta.file(), "blocks.2.attn.v"), Sizes({5, 2, 16}));
  EXPECT_EQ(delta.file().tensors().size(), 6U);
  EXPECT_EQ(delta.file().metadata().at("length"), "5");
  EXPECT_EQ(shape_of(mamba2.file(), "blocks.1.mixer.state"), Sizes({4, 12, 7}));
  EXPECT_EQ(shape_of(mamba.file(), "blocks.1.mixer.state"), Sizes({48, 5}));
  EXPECT_EQ(shape_of(conv.file(), "blocks.0.conv.conv"), Sizes({2, 36}));

  const SafetensorsFile file = mamba2.file();
  const auto* const stored = reinterpret_cast<const float*>(file.tensors().at("blocks.1.mixer.state").bytes.data());
  const std::span<const float> state = mamba2.cache->state<float>(1, 1);  // [H, N, P]
  for (std::size_t h = 0; h < 4; ++h) {
    for (std::size_t n = 0; n < 7; ++n) {
      for (std::size_t p = 0; p < 12; ++p) EXPECT_EQ(stored[(h * 12 + p) * 7 + n], state[(h * 7 + n) * 12 + p]);
    }
  }
}

/// Writes the tensors of a file again, with a change.
template <class Change>
void rewrite(const std::string& path, Change change) {
  struct Stored {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  std::map<std::string, Stored> tensors;
  std::map<std::string, std::string> metadata;
  {
    const SafetensorsFile file = SafetensorsFile::open(path);
    metadata = file.metadata();
    for (const auto& [name, tensor] : file.tensors()) {
      Stored& stored = tensors[name] = {tensor.shape, std::vector<float>(tensor.bytes.size() / sizeof(float))};
      std::memcpy(stored.values.data(), tensor.bytes.data(), tensor.bytes.size());
    }
  }
  change(tensors, metadata);
  SafetensorsWriter writer(path, header_bytes_for(tensors.size()));
  for (const auto& [name, text] : metadata) writer.set_metadata(name, text);
  for (const auto& [name, tensor] : tensors) {
    writer.begin(name, DType::f32, tensor.shape);
    writer.append(std::as_bytes(std::span(tensor.values)));
  }
  writer.commit();
}

TEST(StateFile, RefusesWhatDoesNotFit) {
  using testing::HasSubstr;
  StateFileOf of("qwen3_5_text");
  const std::string original = of.path() + ".original";
  const auto error_after = [&](auto change) {
    std::filesystem::copy_file(original, of.path(), std::filesystem::copy_options::overwrite_existing);
    rewrite(of.path(), change);
    return of.error();
  };
  std::filesystem::copy_file(of.path(), original);
  EXPECT_EQ(error_after([](auto&, auto&) {}), "");
  const std::string state = "blocks.0.linear_attn.state";
  EXPECT_THAT(error_after([&](auto& t, auto&) { t.erase(state); }), HasSubstr(state + " is missing"));
  EXPECT_THAT(error_after([&](auto& t, auto&) { t["more"] = t[state]; }), HasSubstr("tensor more is unknown"));
  EXPECT_THAT(error_after([&](auto& t, auto&) {
                t[state].shape = {6, 14, 10};
              }),
              HasSubstr(state + ": expected F32 [6, 10, 14], got F32 [6, 14, 10]"));
  EXPECT_THAT(error_after([&](auto& t, auto&) { t[state].values[7] = std::nanf(""); }), HasSubstr(state));
  EXPECT_THAT(error_after([&](auto& t, auto&) { t["blocks.2.attn.k"].values[7] = HUGE_VALF; }),
              HasSubstr("blocks.2.attn.k has a value that is infinite"));
  EXPECT_THAT(error_after([](auto&, auto& m) { m["model"] = "0"; }), HasSubstr("another model"));
  EXPECT_THAT(error_after([](auto&, auto& m) { m.erase("model"); }), HasSubstr("another model"));
  EXPECT_THAT(error_after([](auto&, auto& m) { m["length"] = "6"; }), HasSubstr("blocks.2.attn.k: expected"));
  for (const char* const length : {"0", "-1", "1025", "x", "5 "}) {
    EXPECT_THAT(error_after([&](auto&, auto& m) { m["length"] = length; }), HasSubstr("metadata length")) << length;
  }
  EXPECT_EQ(error_after([](auto&, auto&) {}), "");
  EXPECT_THAT(of.error(KvType::bf16), HasSubstr("--kv is bf16:bf16"));
  StateFileOf other("mamba2");
  EXPECT_THROW(read_state(of.path(), other.model(), 1, {}, default_kernels()), BadInput);
}

TEST(StateFile, RefusesModelsWithoutOne) {
  const TempFolder folder;
  for (const char* const golden : {"pairs/marian", "masked/bert"}) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    EXPECT_THROW(StateWriter(folder / "state", *checkpoint.model), Unsupported) << golden;
    EXPECT_THROW(read_state(folder / "state", *checkpoint.model, 1, {}, default_kernels()), Unsupported) << golden;
  }
  ThreadPool pool(1);
  const Json lstm = {{"model_type", "vitrine"}, {"layers", "lstm"}, {"d_model", 6},       {"d_hidden", 10},
                     {"n_layers", 2},           {"vocab_size", 40}, {"max_seq_len", 1024}};
  init_checkpoint(lstm, "test", folder / "lstm", DType::f32, 3, pool);
  EXPECT_THROW(StateWriter(folder / "state", *load_checkpoint(folder / "lstm").model), Unsupported);
  EXPECT_FALSE(std::filesystem::exists(folder / "state"));
}

/// An edit of the file is what the model continues with.
TEST(StateFile, ContinuesFromAnEditedState) {
  StateFileOf of("mamba2");
  ThreadPool pool(1);
  const GenerateContext context{&of.model(), &pool, &default_kernels()};
  rewrite(of.path(), [](auto& tensors, auto&) { tensors["blocks.0.mixer.state"].values[0] = 0.5f; });
  const auto edited = of.read();
  EXPECT_EQ(edited->state<float>(0, 1)[0], 0.5f);
  const std::vector<std::int32_t> more = {3, 4};
  EXPECT_FALSE(same_bits(fed(context, *edited, more), fed(context, *of.cache, more)));
}

}  // namespace
}  // namespace vitrine::test
