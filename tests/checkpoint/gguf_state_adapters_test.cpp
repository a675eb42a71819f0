// GGUF adapters for models whose mixers have a state: read for a folder and for its GGUF file, they do what the PEFT
// adapter does that they were made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/adapters/create.h"
#include "checkpoint/adapters/writer.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf_state_models.h"
#include "generate/generator.h"
#include "generate/score.h"

namespace vitrine::test {
namespace {

std::vector<float> with_adapter(const Checkpoint& base, std::shared_ptr<const Adapter> adapter) {
  ThreadPool pool(2);
  const std::vector<AppliedAdapter> applied(adapter != nullptr ? 1 : 0, AppliedAdapter{adapter, 1});
  GenerateContext context{base.model.get(), &pool, &default_kernels()};
  context.modifiers.adapters = applied;
  std::vector<float> logits;
  score(context, {some_ids(*base.model, 30)},
        [&](std::int64_t, const Tensor& rows) { logits.insert(logits.end(), rows.data, rows.data + rows.count()); });
  return logits;
}

/// An adapter of rank 2 whose matrices are not zero.
WritableAdapter some_adapter(const Checkpoint& base, std::vector<std::string> targets) {
  NewAdapter options;
  options.rank = 2;
  options.alpha = 3;
  options.targets = std::move(targets);
  WritableAdapter made = new_adapter(base, options, 5);
  std::int64_t at = 0;
  for (const AdapterMatrix& matrix : made.matrices) {
    for (std::int64_t i = 0; i < matrix.param->shape.count(); ++i, ++at) {
      matrix.values[i] = 0.3F * std::sin(static_cast<float>(at * at % 997));
    }
  }
  return made;
}

/// All that GGUF can express: not the maps of latent attention to the keys and values of heads.
std::vector<std::string> targets_of(const Checkpoint& base) {
  std::vector<std::string> targets = {"ssm"};
  for (const BlockConfig& block : base.model->config().blocks) {
    if (find<AttentionConfig>(block) == nullptr) continue;
    return {"ssm", "q", "k", "v", "o"};
  }
  if (base.family == "kimi_linear") targets.insert(targets.end(), {"kv_a_proj_with_mqa", "o_proj", "q_proj"});
  if (base.family == "kimi_linear") targets.erase(targets.begin());
  return targets;
}

class GgufStateAdapters : public testing::TestWithParam<StateCase> {};

TEST_P(GgufStateAdapters, DoWhatTheirOriginalsDo) {
  const TempFolder folder;
  ThreadPool pool(2);
  const Checkpoint base = fresh(folder / "model", GetParam().config());
  const WritableAdapter made =
      some_adapter(base, GetParam().name == std::string("GraniteWithoutStates") ? std::vector<std::string>{"q", "v"}
                                                                                : targets_of(base));
  const std::vector<float> plain = with_adapter(base, nullptr), expected = with_adapter(base, made.adapter);
  EXPECT_GT(difference(plain, expected), 1e-2F);
  const std::string path = folder / "adapter.gguf";
  write_gguf_adapter(path, *made.adapter, base);
  EXPECT_LT(difference(with_adapter(base, load_adapter(path, base, pool)), expected), 2e-6F);
  const Checkpoint gguf = through_gguf(base, DType::f32, folder / "model.gguf");
  EXPECT_LT(difference(with_adapter(gguf, load_adapter(path, gguf, pool)), expected), 1e-5F);
  // that of the folder, for the file
  std::filesystem::create_directories(folder / "peft");
  write_peft_adapter(folder / "peft", *made.adapter, base, {});
  if (gguf.has_folded_factors) {
    EXPECT_THROW(load_adapter(folder / "peft", gguf, pool), Unsupported);
  } else if (base.family == "qwen3_next") {  // whose in_proj_qkvz is in two matrices
    EXPECT_THROW(load_adapter(folder / "peft", gguf, pool), BadCheckpoint);
  } else {
    EXPECT_LT(difference(with_adapter(gguf, load_adapter(folder / "peft", gguf, pool)), expected), 1e-5F);
  }
  // each matrix changes a tensor of the file
  const GgufModelFile model = open_gguf(MappedFile::open(folder / "model.gguf"));
  const GgufModelFile adapter = open_gguf(MappedFile::open(path));
  for (const auto& [name, tensor] : adapter.tensors.all) {
    EXPECT_TRUE(model.tensors.all.contains(name.substr(0, name.size() - 7))) << name;
  }
  // and written for that file it has the same tensors
  const std::string again = folder / "again.gguf";
  write_gguf_adapter(again, *load_adapter(path, gguf, pool), gguf);
  const GgufModelFile other = open_gguf(MappedFile::open(again));
  ASSERT_EQ(other.tensors.all.size(), adapter.tensors.all.size());
  for (const auto& [name, tensor] : adapter.tensors.all) {
    EXPECT_TRUE(std::ranges::equal(other.tensors.all.at(name).bytes, tensor.bytes)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufStateAdapters, testing::ValuesIn(state_cases()),
                         [](const auto& param) { return param.param.name; });

TEST(GgufStateAdapters, HaveNoMapsByHead) {
  const TempFolder folder;
  const Checkpoint base = fresh(folder / "model", kimi_linear());
  const WritableAdapter made = some_adapter(base, {"kv_b_proj"});
  try {
    write_gguf_adapter(folder / "adapter.gguf", *made.adapter, base);
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("model.layers.2.self_attn.kv_b_proj: GGUF has it by head"));
  }
}

/// The model has q, k, v and z in one matrix, the adapter of its file in two modules that need one A.
TEST(GgufStateAdapters, OfPartsOfAMatrixNeedOneA) {
  const TempFolder folder;
  ThreadPool pool(2);
  const Checkpoint base = fresh(folder / "model", qwen3_next());
  const Checkpoint gguf = through_gguf(base, DType::f32, folder / "model.gguf");
  const std::string path = folder / "adapter.gguf";
  write_gguf_adapter(path, *some_adapter(base, {"in_proj_qkvz"}).adapter, base);
  const auto loaded = load_adapter(path, gguf, pool);
  Adapter other = *loaded;
  LowRank& gate = other.maps.at("blocks.0.linear_attn.w_z.weight");
  std::vector<float> values(static_cast<std::size_t>(gate.a->shape.count()), 0.5F);
  gate.a = std::make_shared<const Param>(
      Param{"", "", gate.a->shape, view_of(values.data(), gate.a->shape[0], gate.a->shape[1], gate.a->shape[1])});
  write_gguf_adapter(path, other, gguf);
  load_adapter(path, gguf, pool);
  try {
    load_adapter(path, base, pool);
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("blk.0.attn_gate.weight and blk.0.attn_qkv.weight"));
    EXPECT_THAT(error.what(), testing::HasSubstr("one matrix A"));
  }
}

}  // namespace
}  // namespace vitrine::test
