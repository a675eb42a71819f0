// Folders with FP8 and MXFP4 weights: the bits of the dequantized weights in every phase, agreement with transformers,
// and what is written from them.
#include <gtest/gtest.h>

#include "checkpoint/gguf/export.h"
#include "checkpoint/gguf/quantization_mix.h"
#include "checkpoint/param_rows.h"
#include "checkpoint/quantized_folders.h"

namespace vitrine::test {
namespace {

/// Every phase of the model has the bits of `expected`, which are those of one forward.
void expect_bits_in_every_phase(const Model& model, std::span<const std::int32_t> ids,
                                const std::vector<float>& expected, const RunOptions& o = {}) {
  RunOptions options = o;
  for (const Isa isa : available_isas()) {
    options.kernels = &kernels_for(isa);
    EXPECT_TRUE(same_bits(logits_of(model, ids, options), expected)) << name_of(isa);
    for (const std::int64_t chunk : {1, 7}) {
      EXPECT_TRUE(same_bits(chunked_logits_of(model, ids, chunk, options), expected)) << name_of(isa) << ' ' << chunk;
    }
  }
  options.kernels = &default_kernels();
  options.threads = 3;
  EXPECT_TRUE(same_bits(logits_of(model, ids, options), expected)) << "three threads";
}

struct Case {
  const char* golden;
  Quantizing how;
};

class Fp8Folders : public testing::TestWithParam<Case> {};

TEST_P(Fp8Folders, HaveTheBitsOfTheDequantizedWeights) {
  const auto folders = fp8_folders(GetParam().golden, GetParam().how);
  const Checkpoint quantized = load_checkpoint(folders->quantized.path());
  const Checkpoint floats = load_checkpoint(folders->floats.path());
  EXPECT_EQ(quantized.model->params().embed.view.dtype, DType::f8_e4m3);
  const std::vector<std::int32_t> ids = some_ids(*floats.model, 21);
  const std::vector<float> expected = logits_of(*floats.model, ids);
  expect_bits_in_every_phase(*quantized.model, ids, expected);
  expect_bits_in_every_phase(*quantized.model, ids, expected, {.compute = Compute::f32});
}

INSTANTIATE_TEST_SUITE_P(
    Blocks, Fp8Folders,
    testing::Values(Case{"llama_mha", {16, 16}}, Case{"llama_mha", {7, 24}}, Case{"llama_mha", {24, 5, "BF16"}},
                    Case{"llama_mha", {128, 128}}, Case{"llama_mha", {1, kWhole}}, Case{"llama_mha", {kWhole, kWhole}},
                    Case{"llama_mha", {8, 24, "F8_E8M0"}}, Case{"gemma2", {16, 10}}, Case{"qwen3", {5, 16}},
                    Case{"qwen3_moe", {5, 7}}, Case{"qwen3_moe", {kWhole, kWhole, "BF16"}}, Case{"glm4_moe", {16, 3}},
                    Case{"granitemoe", {10, 7}}, Case{"granitemoe", {1, kWhole}}, Case{"granitemoe", {kWhole, kWhole}},
                    Case{"phi3_short", {10, 6}}, Case{"gpt2", {6, 10}}),
    [](const auto& param_info) { return std::to_string(param_info.index) + "_" + param_info.param.golden; });

/// Folders of tools/goldens quantized_folders: transformers' logits in float64 with the dequantized weights.
TEST(QuantizedFolders, AgreeWithTransformers) {
  for (const char* name : {"fp8_blocks", "fp8_rows", "fp8_tensors", "fp8_square", "mxfp4"}) {
    const std::string folder = goldens() + "/quantized/" + name;
    const Checkpoint checkpoint = load_checkpoint(folder);
    const SafetensorsFile golden = SafetensorsFile::open(folder + "/golden.safetensors");
    std::vector<std::int32_t> ids;
    for (const float id : floats_of(golden.tensors().at("hook_tokens"))) ids.push_back(static_cast<std::int32_t>(id));
    const StoredTensor& stored = golden.tensors().at("logits");
    std::vector<double> expected(stored.bytes.size() / sizeof(double));
    std::memcpy(expected.data(), stored.bytes.data(), stored.bytes.size());
    const std::vector<float> logits = logits_of(*checkpoint.model, ids, {.compute = Compute::f32});
    ASSERT_EQ(logits.size(), expected.size()) << name;
    double largest = 0, error = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      error = std::max(error, std::abs(static_cast<double>(logits[i]) - expected[i]));
    }
    EXPECT_LE(error, 2e-6 * (1 + largest)) << name << ", largest " << largest;
  }
}

TEST(QuantizedFolders, OtherModulesKeepTheirTypesAndTheDefaultBlockIs128) {
  const auto folders = fp8_folders("llama_mha", {128, 128}, [](const std::string& name) {
    return name.find("self_attn") != name.npos || name.find("embed") != name.npos;
  });
  folders->quantized.edit_json([](Json& config) { config["quantization_config"].erase("weight_block_size"); });
  const Checkpoint quantized = load_checkpoint(folders->quantized.path());
  EXPECT_EQ(quantized.model->params().unembed.weight.view.dtype, DType::f32);
  const std::vector<std::int32_t> ids = some_ids(*quantized.model, 9);
  EXPECT_TRUE(
      same_bits(logits_of(*quantized.model, ids), logits_of(*load_checkpoint(folders->floats.path()).model, ids)));
}

/// An embedding has one scale under another name.
TEST(QuantizedFolders, TheScaleOfAnEmbedding) {
  const auto folders = fp8_folders("llama_mha", {kWhole, kWhole},
                                   [](const std::string& name) { return name == "model.embed_tokens.weight"; });
  const std::string with_inverse = "model.embed_tokens.weight_scale_inv";
  edit_tensors(folders->quantized, [&](auto& tensors) {
    auto node = tensors.extract(with_inverse);
    node.key() = "model.embed_tokens.weight_scale";
    node.mapped().shape = {1};
    tensors.insert(std::move(node));
  });
  folders->quantized.edit_json([](Json& config) {
    config["quantization_config"]["modules_to_convert"] = {"embed_tokens"};
    config["quantization_config"]["weight_block_size"] = {128, 128};
  });
  const Checkpoint quantized = load_checkpoint(folders->quantized.path());
  const std::vector<std::int32_t> ids = some_ids(*quantized.model, 9);
  EXPECT_TRUE(
      same_bits(logits_of(*quantized.model, ids), logits_of(*load_checkpoint(folders->floats.path()).model, ids)));
}

int matrices_of(const Model& model, DType type) {
  int n = 0;
  for_each_param(model.config(), model.params(),
                 [&](const Param& param, const std::string&, const Shape&) { n += param.view.dtype == type ? 1 : 0; });
  return n;
}

/// Experts in one tensor of a layer, in tensors of their own, and rows of a matrix whose floats are stored transposed.
TEST(QuantizedFolders, Mxfp4HasTheBitsOfTheDequantizedWeights) {
  for (const char* golden : {"granitemoe", "qwen3_moe", "gpt2"}) {
    const auto folders = mxfp4_folders(golden);
    const Checkpoint quantized = load_checkpoint(folders->quantized.path());
    const Checkpoint floats = load_checkpoint(folders->floats.path());
    EXPECT_GE(matrices_of(*quantized.model, DType::mxfp4_pairs), golden == std::string_view("gpt2") ? 2 : 20);
    const std::vector<std::int32_t> ids = some_ids(*floats.model, 21);
    expect_bits_in_every_phase(*quantized.model, ids, logits_of(*floats.model, ids), {.compute = Compute::f32});
  }
}

/// The rows of the matrices of that type, by name.
std::map<std::string, std::vector<float>> values_of_type(const Model& model, DType type) {
  std::map<std::string, std::vector<float>> values;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape&) {
    if (param.view.dtype != type) return;
    std::vector<float> row(static_cast<std::size_t>(param.view.cols));
    for (std::int64_t r = 0; r < param.view.rows; ++r) {
      read_row(param.view, r, row);
      values[name].insert(values[name].end(), row.begin(), row.end());
    }
  });
  return values;
}

/// From MXFP4, experts keep their values, and integer products have the bits of those of the GGUF. (Granite's attention
/// has other bits there, because its rows of q and k are permuted.)
TEST(QuantizedFolders, Mxfp4BecomesTheSameBlocksInAGguf) {
  for (const char* golden : {"granitemoe", "qwen3_moe"}) {
    const auto folders = mxfp4_folders(golden);
    const Checkpoint quantized = load_checkpoint(folders->quantized.path());
    const std::string out = folders->quantized / "model.gguf";
    ThreadPool pool(2);
    GgufTypes types(file_type_named("mxfp4"));
    types.overrides.push_back({std::regex("attn|token_embd|output"), DType::f32});
    write_gguf(out, quantized, types, {}, pool);
    const Checkpoint written = load_checkpoint(out);
    EXPECT_EQ(values_of_type(*written.model, DType::mxfp4), values_of_type(*quantized.model, DType::mxfp4_pairs));
    if (golden == std::string_view("granitemoe")) continue;
    const std::vector<std::int32_t> ids = some_ids(*quantized.model, 21);
    EXPECT_TRUE(same_bits(logits_of(*written.model, ids, {.compute = Compute::f32}),
                          logits_of(*load_checkpoint(folders->floats.path()).model, ids)));
    const std::vector<float> integers = logits_of(*quantized.model, ids);
    EXPECT_TRUE(same_bits(logits_of(*written.model, ids), integers));
    expect_bits_in_every_phase(*quantized.model, ids, integers);
  }
}

TEST(QuantizedFolders, WeightsAreQuantizedAgainOnlyOnRequest) {
  const auto folders = fp8_folders("qwen3", {16, 16}), wider = fp8_folders("llama_mha", {16, 16}, {}, true);
  const Checkpoint quantized = load_checkpoint(folders->quantized.path());
  const std::string out = folders->quantized / "model.gguf";
  ThreadPool pool(2);
  const auto to_q8_0 = [&](bool allow) {
    GgufTypes types(DType::q8_0);
    types.allow_requantize = allow;
    write_gguf(out, load_checkpoint(wider->quantized.path()), types, {}, pool);
  };
  expect_all_in(message_of<BadInput>([&] { to_q8_0(false); }),
                {"is F8_E4M3 in the model", "to Q8_0", "--allow-requantize"});
  to_q8_0(true);
  EXPECT_GE(matrices_of(*load_checkpoint(out).model, DType::q8_0), 2);
  write_gguf(out, quantized, GgufTypes(DType::f32), {}, pool);
  const std::vector<std::int32_t> ids = some_ids(*quantized.model, 21);
  EXPECT_TRUE(same_bits(logits_of(*load_checkpoint(out).model, ids), logits_of(*quantized.model, ids)));
}

}  // namespace
}  // namespace vitrine::test
