// GGUF files of models whose mixers have a state: the same model comes back, under the names that other programs read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/mapped_file.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf_state_models.h"

namespace vitrine::test {
namespace {

class GgufStates : public testing::TestWithParam<StateCase> {};

TEST_P(GgufStates, ComesBack) {
  const TempFolder folder;
  const Checkpoint original = fresh(folder / "model", GetParam().config());
  const std::string path = folder / "model.gguf", again = folder / "again.gguf";
  const Checkpoint gguf = through_gguf(original, DType::f32, path);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 40; ++i) ids.push_back((i * 7 + 3) % kVocab);
  const std::vector<float> expected = logits_of(*original.model, ids), got = logits_of(*gguf.model, ids);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5F * (1 + std::abs(expected[i])));
  const GgufModelFile file = open_gguf(MappedFile::open(path));
  for (const std::string& tensor : GetParam().tensors) EXPECT_TRUE(file.tensors.all.contains(tensor)) << tensor;
  // a file of a file has the same tensors
  const Checkpoint twice = through_gguf(gguf, DType::f32, again);
  EXPECT_TRUE(same_bits(logits_of(*twice.model, ids), got));
  const GgufModelFile other = open_gguf(MappedFile::open(again));
  ASSERT_EQ(other.tensors.all.size(), file.tensors.all.size());
  for (const auto& [name, tensor] : file.tensors.all) {
    const StoredTensor& same = other.tensors.all.at(name);
    EXPECT_EQ(same.shape, tensor.shape) << name;
    EXPECT_TRUE(std::ranges::equal(same.bytes, tensor.bytes)) << name;
  }
}

/// Matrices of mixers are quantized; convolutions and rates are not.
TEST_P(GgufStates, QuantizesMatricesAlone) {
  const TempFolder folder;
  Json config = GetParam().config();
  const Checkpoint original = fresh(folder / "model", config);
  through_gguf(original, DType::f16, folder / "model.gguf");
  const GgufModelFile file = open_gguf(MappedFile::open(folder / "model.gguf"));
  for (const auto& [name, tensor] : file.tensors.all) {
    const bool is_kept = name.find("conv1d") != name.npos || name.find("shortconv.conv.") != name.npos ||
                         name.ends_with(".ssm_a") || name.ends_with("gate_inp.weight");
    const bool is_matrix = tensor.shape.size() > 1 && tensor.shape.back() > 1 && !is_kept;
    EXPECT_EQ(tensor.type == DType::f16, is_matrix && !name.ends_with("norm.weight")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufStates, testing::ValuesIn(state_cases()),
                         [](const auto& param) { return param.param.name; });

/// In a mix, more bits go to some of the layers that have attention, counted among themselves, and to some
/// feed-forwards.
TEST(GgufStates, MixesTypesAsLlamaCppDoes) {
  const TempFolder folder;
  Json config = dense_lfm2();
  config.update(
      {{"hidden_size", 256}, {"intermediate_size", 256}, {"num_hidden_layers", 8}, {"num_attention_heads", 4}});
  config["layer_types"] = Json::array();
  for (int i = 0; i < 8; ++i) config["layer_types"].push_back(i == 2 || i == 5 ? "full_attention" : "conv");
  through_gguf(fresh(folder / "model", config), DType::q4_k, folder / "model.gguf");
  const GgufModelFile file = open_gguf(MappedFile::open(folder / "model.gguf"));
  const auto type = [&](const std::string& name) { return file.tensors.all.at(name).type; };
  EXPECT_EQ(type("blk.2.attn_v.weight"), DType::q4_k);
  EXPECT_EQ(type("blk.5.attn_v.weight"), DType::q6_k);
  EXPECT_EQ(type("blk.0.shortconv.in_proj.weight"), DType::q4_k);
  EXPECT_EQ(type("blk.0.shortconv.conv.weight"), DType::f32);
  EXPECT_EQ(type("token_embd.weight"), DType::q6_k);
  for (int i = 0; i < 8; ++i) {
    const bool has_more = i == 0 || i == 3 || i == 6 || i == 7;
    EXPECT_EQ(type("blk." + std::to_string(i) + ".ffn_down.weight"), has_more ? DType::q6_k : DType::q4_k) << i;
  }
}

/// Quantized files run, and the parts in which they read a text change no bit.
TEST_P(GgufStates, RunsQuantized) {
  const TempFolder folder;
  Json config = GetParam().config();
  config["hidden_size"] = 96;  // whole blocks
  if (config.contains("mamba_d_head") && !config.contains("mamba_d_ssm")) config["mamba_d_head"] = 32;
  if (config.contains("num_heads")) config["head_dim"] = 48;
  const Checkpoint gguf = through_gguf(fresh(folder / "model", config), DType::q8_0, folder / "model.gguf");
  const GgufModelFile file = open_gguf(MappedFile::open(folder / "model.gguf"));
  EXPECT_TRUE(std::ranges::any_of(file.tensors.all, [](const auto& each) { return each.second.type == DType::q8_0; }));
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 24; ++i) ids.push_back((i * 5 + 1) % kVocab);
  const std::vector<float> whole = logits_of(*gguf.model, ids);
  EXPECT_TRUE(std::ranges::all_of(whole, [](float x) { return std::isfinite(x); }));
  EXPECT_TRUE(same_bits(chunked_logits_of(*gguf.model, ids, 5), whole));
  EXPECT_TRUE(same_bits(chunked_logits_of(*gguf.model, ids, 1), whole));
}

/// What llama.cpp would leave out is refused by name.
TEST(GgufStates, RefusesWhatHasNoPlace) {
  const TempFolder folder;
  ThreadPool pool(2);
  const auto message = [&](const std::string& name, Json config, const Json& changes) {
    config.update(changes);
    const Checkpoint checkpoint = fresh(folder / name, config);
    try {
      write_gguf(folder / (name + ".gguf"), checkpoint, DType::f32, {}, pool);
    } catch (const Unsupported& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message("bias", mamba(), {{"use_bias", true}}).find("mixer_bias"), std::string::npos);
  EXPECT_NE(message("limits", mamba2(), {{"time_step_limit", {0.1, 0.5}}}).find("step"), std::string::npos);
  EXPECT_NE(message("least", nemotron_h(), {{"time_step_min", 0.0}}).find("step_limits.least"), std::string::npos);
  EXPECT_NE(message("order", falcon_h1(), {{"mamba_rms_norm", true}}).find("before"), std::string::npos);
  EXPECT_NE(message("kinds", sparse_nemotron_h(), {{"hybrid_override_pattern", "ME-*"}}).find("dense layers"),
            std::string::npos);
  EXPECT_NE(message("heads", kimi_linear(), {{"linear_num_heads", 2}}).find("heads of delta nets"), std::string::npos);
  EXPECT_NE(message("positions", granite_hybrid(), {{"position_embedding_type", "rope"}}).find("attention.rope"),
            std::string::npos);
  EXPECT_NE(message("sizes", dense_qwen3_5(), {{"linear_value_head_dim", 12}}).find("values"), std::string::npos);
  EXPECT_NE(message("factor", sparse_lfm2(), {{"routed_scaling_factor", 2.0}}).find("factor"), std::string::npos);
}

}  // namespace
}  // namespace vitrine::test
