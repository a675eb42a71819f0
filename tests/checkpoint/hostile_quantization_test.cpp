// What is refused of folders with quantized weights: methods, keys, and tensors that do not fit.
#include <gtest/gtest.h>

#include "checkpoint/quantized_folders.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

/// The message that refuses an FP8 folder after a change.
std::string fp8_refusal(const std::function<void(std::map<std::string, StoredTensor>&)>& change,
                        const Quantizing& how = {16, 16}) {
  const auto folders = fp8_folders("llama_mha", how);
  edit_tensors(folders->quantized, change);
  return refusal(folders->quantized.path());
}

TEST(QuantizedFolders, ScalesThatDoNotFitAreRefused) {
  const std::string q = "model.layers.1.self_attn.q_proj.weight", scales = q + "_scale_inv";
  const auto with_shape = [&](std::vector<std::int64_t> shape, const Quantizing& how = {16, 16}) {
    static const std::vector<std::byte> bytes(4096);
    return fp8_refusal(
        [&](auto& tensors) {
          std::size_t size = 4;
          for (const std::int64_t n : shape) size *= static_cast<std::size_t>(n);
          tensors[scales] = {"F32", {}, shape, std::span(bytes).first(size), ""};
        },
        how);
  };
  EXPECT_EQ(with_shape({2, 2}), "");
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
           {}, {1}, {4}, {2}, {1, 1}, {2, 1}, {3, 2}, {2, 3}, {24, 1}, {1, 2, 2}, {2, 2, 1}, {0, 2}, {24, 24}}) {
    expect_all_in(with_shape(shape), {"model.safetensors] tensor " + scales, "block of 16 rows and 16 columns",
                                      q + " [24,24]", "got shape"});
  }
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{2, 2}, {24, 2}, {23}, {25, 1}, {0}}) {
    expect_all_in(with_shape(shape, {kWhole, kWhole}), {scales, "for each row or for all", "got shape"});
  }
  expect_all_in(fp8_refusal([&](auto& tensors) { tensors.erase(scales); }), {"tensor " + scales + " is missing"});
  expect_all_in(fp8_refusal([&](auto& tensors) { tensors.at(scales).dtype = "I32"; }),
                {"tensor " + scales + ": expected scales in F32", "got I32"});
  expect_all_in(fp8_refusal([&](auto& tensors) { tensors.at(scales).dtype = "U32"; }), {scales, "got U32"});
  expect_all_in(fp8_refusal([&](auto& tensors) { tensors["model.extra_scale_inv"] = tensors.at(scales); }),
                {"model.extra_scale_inv is not part of this model"});
  expect_all_in(fp8_refusal([&](auto& tensors) {
                  tensors["model.layers.0.self_attn.q_proj.activation_scale"] = {
                      "F32", {}, {1}, tensors.at(scales).bytes.first(4), ""};
                }),
                {"q_proj.activation_scale is not part of this model"});
  expect_all_in(fp8_refusal([&](auto& tensors) {
                  StoredTensor& norm = tensors.at("model.norm.weight");
                  norm = {"F8_E4M3", {}, norm.shape, norm.bytes.first(24), ""};
                  tensors["model.norm.weight_scale_inv"] = tensors.at(scales);
                }),
                {"tensor model.norm.weight: expected matrices in F8_E4M3"});
  expect_all_in(fp8_refusal([&](auto& tensors) { tensors.at(q).dtype = "F8_E5M2"; }), {q, "F8_E5M2"});
}

/// All codes and scales of arbitrary bytes: values may be infinite or NaN, which the forward reports.
TEST(QuantizedFolders, ArbitraryBytesAreReadOrReported) {
  std::mt19937 random(5);
  for (int i = 0; i < 20; ++i) {
    Memory memory;
    const std::string message = fp8_refusal([&](auto& tensors) {
      for (auto& [name, tensor] : tensors) {
        if (tensor.dtype != "F8_E4M3" && !name.ends_with("_scale_inv")) continue;
        std::vector<std::byte> bytes(tensor.bytes.size());
        for (std::byte& b : bytes) b = static_cast<std::byte>(random());
        tensor.bytes = memory.keep(bytes);
      }
    });
    EXPECT_THAT(message, testing::AnyOf("", HasSubstr("infinite or NaN")));
  }
}

TEST(QuantizedFolders, RowsThatAreInterleavedByHeadAreRefused) {
  const auto folders = fp8_folders("gpt_neox", {16, 16});
  expect_all_in(refusal(folders->quantized.path()), {"query_key_value", "interleaved"});
}

std::string config_refusal(const Json& quantization, const LoadOptions& options = {}) {
  const HostileFolder folder("llama_mha");
  folder.edit_json([&](Json& config) { config["quantization_config"] = quantization; });
  return load_refusal(folder.path(), options);
}

TEST(QuantizedFolders, MethodsThatAreNotReadAreRefusedByNameAndByNeed) {
  for (const char* method :
       {"aqlm",  "auto-round", "bitnet", "eetq",    "fbgemm_fp8", "fouroversix", "fp_quant", "gemma",
        "gguf",  "higgs",      "hqq",    "metal",   "modelopt",   "mxfp8",       "nvfp4",    "quanto",
        "quark", "sinq",       "spqr",   "torchao", "vptq",       "of_tomorrow"}) {
    expect_all_in(
        config_refusal({{"quant_method", method}, {"bits", 4}}),
        {"config.json] quantization_config.quant_method " + std::string(method) + ": not supported: it needs ",
         "GGUF"});
  }
  EXPECT_THAT(config_refusal({{"quant_method", "of_tomorrow"}}), HasSubstr("a method of its own"));
  EXPECT_THAT(config_refusal({{"quant_method", "hqq"}}), HasSubstr("zero points in floats"));
  EXPECT_THAT(config_refusal(Json::object()), HasSubstr("quantization_config: key quant_method is missing"));
  EXPECT_THAT(config_refusal(4), HasSubstr("quantization_config: expected an object, got 4"));
  EXPECT_EQ(config_refusal(nullptr), "");
  EXPECT_EQ(config_refusal({{"quant_method", "hqq"}}, {{"quantization_config"}}), "");
}

/// Whatever a method of groups says that is not read is refused by the name of its key.
TEST(QuantizedFolders, PackingsThatAreNotReadAreRefusedByTheirKey) {
  const Json gptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}};
  const Json awq = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}};
  const auto refused = [](Json config, const char* key, const Json& value) {
    config[key] = value;
    return config_refusal(config);
  };
  EXPECT_EQ(config_refusal(gptq), "");  // no weight is packed: all modules are as they are
  EXPECT_THAT(refused(gptq, "bits", 5), HasSubstr("quantization_config.bits 5: not supported"));
  EXPECT_THAT(refused(gptq, "group_size", -2), HasSubstr("group_size: expected -1 or a size"));
  EXPECT_THAT(refused(gptq, "checkpoint_format", "marlin"), HasSubstr("checkpoint_format marlin"));
  EXPECT_THAT(refused(gptq, "key_of_tomorrow", 3), HasSubstr("key_of_tomorrow"));
  EXPECT_THAT(refused(awq, "bits", 8), HasSubstr("bits 8"));
  EXPECT_THAT(refused(awq, "version", "gemv"), HasSubstr("version gemv"));
  EXPECT_THAT(config_refusal(
                  {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_storage", "bfloat16"}}),
              HasSubstr("bnb_4bit_quant_storage bfloat16"));
  const Json compressed = {
      {"quant_method", "compressed-tensors"},
      {"format", "pack-quantized"},
      {"config_groups",
       {{"group_0",
         {{"targets", {"Linear"}}, {"weights", {{"num_bits", 4}, {"type", "int"}, {"strategy", "channel"}}}}}}}};
  EXPECT_EQ(config_refusal(compressed), "");
  EXPECT_THAT(refused(compressed, "format", "marlin-24"), HasSubstr("format marlin-24"));
  EXPECT_THAT(refused(compressed, "kv_cache_scheme", {{"num_bits", 8}}), HasSubstr("kv_cache_scheme"));
  EXPECT_THAT(refused(compressed, "config_groups", Json::object()), HasSubstr("config_groups"));
}

TEST(QuantizedFolders, KeysOfFp8ThatWouldChangeTheNumbersAreRefused) {
  const auto with = [](const char* key, const Json& value) {
    Json config = fp8_config({16, 16});
    config[key] = value;
    return config_refusal(config);
  };
  EXPECT_EQ(with("fmt", "e4m3"), "");
  EXPECT_EQ(with("scale_fmt", "ue8m0"), "");
  EXPECT_EQ(with("ignored_layers", {"lm_head"}), "");
  EXPECT_THAT(with("fmt", "e5m2"), HasSubstr("quantization_config.fmt e5m2: not supported"));
  EXPECT_THAT(with("activation_scheme", "static"),
              HasSubstr("quantization_config.activation_scheme static: not supported: it needs activations that are "
                        "rounded to FP8 with stored scales"));
  EXPECT_THAT(with("expert_dtype", "fp4"), HasSubstr("expert_dtype fp4"));
  EXPECT_THAT(with("scale_fmt", "int"), HasSubstr("scale_fmt int"));
  EXPECT_THAT(with("new_key", 4), HasSubstr("quantization_config] unknown key new_key"));
  EXPECT_THAT(with("modules_to_not_convert", 4), HasSubstr("modules_to_not_convert"));
  for (const Json& block :
       {Json({16}), Json({16, 0}), Json({16, 16, 16}), Json({-1, 4}), Json("x"), Json({1e300, 2})}) {
    EXPECT_THAT(with("weight_block_size", block), HasSubstr("weight_block_size")) << block;
  }
}

TEST(QuantizedFolders, Mxfp4TensorsThatDoNotFitAreRefused) {
  const std::string name = "model.layers.0.block_sparse_moe.input_linear.weight";
  const auto with = [&](const std::function<void(std::map<std::string, StoredTensor>&)>& change) {
    const auto folders = mxfp4_folders("granitemoe");
    edit_tensors(folders->quantized, change);
    return refusal(folders->quantized.path());
  };
  EXPECT_EQ(with([](auto&) {}), "");
  expect_all_in(with([&](auto& tensors) { tensors.erase(name + "_scales"); }), {name + "_scales is missing"});
  expect_all_in(with([&](auto& tensors) { tensors.erase(name + "_blocks"); }), {name, "missing"});
  expect_all_in(with([&](auto& tensors) { tensors.at(name + "_scales").dtype = "I8"; }),
                {name + "_scales: expected U8", "got I8"});
  expect_all_in(with([&](auto& tensors) {
                  StoredTensor& scales = tensors.at(name + "_scales");
                  std::swap(scales.shape[0], scales.shape[1]);
                }),
                {name + "_scales: expected U8", "an exponent for each block of"});
  expect_all_in(with([&](auto& tensors) {
                  StoredTensor& blocks = tensors.at(name + "_blocks");
                  blocks.shape[3] *= 2, blocks.shape[2] /= 2;
                }),
                {name + "_blocks: expected bytes [rows, columns / 32, 16]"});
  expect_all_in(with([&](auto& tensors) {
                  for (const char* part : {"_blocks", "_scales"}) {
                    std::swap(tensors.at(name + part).shape[0], tensors.at(name + part).shape[1]);
                  }
                }),
                {name + ": expected shape"});
  expect_all_in(with([&](auto& tensors) { tensors[name] = tensors.at("model.norm.weight"); }),
                {name, "hold the same parameter"});
}

}  // namespace
}  // namespace vitrine::test
