// Folders with FP8 and MXFP4 weights: the bits of the dequantized weights in every phase, what is written from them,
// and what is refused.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "checkpoint/gguf/export.h"
#include "checkpoint/gguf/quantization_mix.h"
#include "checkpoint/hostile_folder.h"
#include "checkpoint/init.h"
#include "checkpoint/param_rows.h"
#include "parallel/thread_pool.h"
#include "tensor/dtype.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kWhole = 0;  // a block that has all rows, or all columns

/// Bytes that live as long as the test.
struct Memory {
  std::deque<std::vector<std::byte>> all;

  template <class T>
  std::span<const std::byte> keep(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return all.emplace_back(bytes.begin(), bytes.end());
  }
};

/// The E4M3 number nearest to x.
std::uint8_t f8_of(float x) {
  std::uint8_t best = 0;
  for (std::uint8_t code = 0; code < 0x7F; ++code) {
    if (std::abs(float_from_f8_e4m3(code) - std::abs(x)) < std::abs(float_from_f8_e4m3(best) - std::abs(x)))
      best = code;
  }
  return static_cast<std::uint8_t>(x < 0 ? best | 0x80 : best);
}

std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / static_cast<std::size_t>(size_of(*tensor.type)));
  default_kernels().widen(tensor.bytes.data(), *tensor.type, static_cast<std::int64_t>(values.size()), values.data());
  return values;
}

struct Quantizing {
  std::int64_t block_rows, block_cols;
  const char* scale_type = "F32";
};

/// A tensor as FP8 with its scales, and its dequantized values.
struct Fp8 {
  StoredTensor codes, scales, floats;
};

Fp8 quantize(const StoredTensor& tensor, const Quantizing& how, Memory& memory) {
  const std::vector<float> values = floats_of(tensor);
  const std::size_t rank = tensor.shape.size();
  const std::int64_t rows = tensor.shape[rank - 2], cols = tensor.shape[rank - 1];
  const std::int64_t b = how.block_rows == kWhole ? rows : how.block_rows;
  const std::int64_t c = how.block_cols == kWhole ? cols : how.block_cols;
  const std::int64_t n = (rows + b - 1) / b, m = (cols + c - 1) / c;
  const std::int64_t matrices = static_cast<std::int64_t>(values.size()) / (rows * cols);
  std::vector<float> scales(static_cast<std::size_t>(matrices * n * m)), floats(values.size());
  std::vector<std::uint8_t> codes(values.size()), powers;
  std::vector<std::uint16_t> halves;
  std::mt19937 random(3);
  for (float& scale : scales) {  // of three random digits; as powers of two they have none
    scale = std::string_view(how.scale_type) == "F8_E8M0"
                ? std::ldexp(1.0f, -static_cast<int>(random() % 3) - 6)
                : float_from_bf16(bf16_from_float(static_cast<float>(random() % 900 + 100) / 100000.0f));
    powers.push_back(static_cast<std::uint8_t>(std::ilogb(scale) + 127));
    halves.push_back(bf16_from_float(scale));
  }
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
    const std::int64_t row = i / cols % rows, col = i % cols, matrix = i / (rows * cols);
    const float scale = scales[static_cast<std::size_t>((matrix * n + row / b) * m + col / c)];
    const auto at = static_cast<std::size_t>(i);
    codes[at] = f8_of(values[at] / scale);
    floats[at] = float_from_f8_e4m3(codes[at]) * scale;
  }
  std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end() - 2);
  shape.insert(shape.end(), {n, m});
  if (how.block_rows == kWhole && how.block_cols == kWhole && rank == 2) shape.clear();
  const std::string_view type = how.scale_type;
  return {{"F8_E4M3", {}, tensor.shape, memory.keep(codes), ""},
          {how.scale_type,
           {},
           shape,
           type == "F32"    ? memory.keep(scales)
           : type == "BF16" ? memory.keep(halves)
                            : memory.keep(powers),
           ""},
          {"F32", DType::f32, tensor.shape, memory.keep(floats), ""}};
}

Json fp8_config(const Quantizing& how) {
  Json config = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"modules_to_not_convert", {"lm_head"}}};
  const bool by_block = how.block_rows != kWhole && how.block_cols != kWhole;
  config["weight_block_size"] = by_block ? Json({how.block_rows, how.block_cols}) : Json();
  return config;
}

/// A folder in FP8, and the same values in F32.
struct Folders {
  explicit Folders(const std::string& golden) : quantized(golden), floats(golden) {}

  HostileFolder quantized, floats;
  Memory memory;
};

bool is_norm_or_router(const std::string& name) {
  return name.find("norm") != name.npos || name.find("router") != name.npos || name.ends_with("mlp.gate.weight");
}

std::unique_ptr<Folders> fp8_folders(const std::string& golden, const Quantizing& how,
                                     const std::function<bool(const std::string&)>& chosen = {}) {
  auto folders = std::make_unique<Folders>(golden);
  const auto change = [&](const HostileFolder& folder, bool quantizes) {
    edit_tensors(folder, [&](std::map<std::string, StoredTensor>& tensors) {
      for (const auto& [name, tensor] : std::map(tensors)) {
        if (tensor.shape.size() < 2 || (chosen ? !chosen(name) : is_norm_or_router(name))) continue;
        const Fp8 fp8 = quantize(tensor, how, folders->memory);
        tensors[name] = quantizes ? fp8.codes : fp8.floats;
        if (quantizes) tensors[name + "_scale_inv"] = fp8.scales;
      }
    });
  };
  change(folders->quantized, true);
  change(folders->floats, false);
  folders->quantized.edit_json([&](Json& config) { config["quantization_config"] = fp8_config(how); });
  return folders;
}

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
  expect_all_in(refusal(folders->quantized.path()), {"query_key_value", "interleaved by head"});
}

std::string config_refusal(const Json& quantization, const LoadOptions& options = {}) {
  const HostileFolder folder("llama_mha");
  folder.edit_json([&](Json& config) { config["quantization_config"] = quantization; });
  return load_refusal(folder.path(), options);
}

TEST(QuantizedFolders, MethodsThatAreNotReadAreRefusedByNameAndByNeed) {
  for (const char* method : {"aqlm",  "auto-round", "awq",         "bitnet",   "bitsandbytes", "compressed-tensors",
                             "eetq",  "fbgemm_fp8", "fouroversix", "fp_quant", "gemma",        "gguf",
                             "gptq",  "higgs",      "hqq",         "metal",    "modelopt",     "mxfp8",
                             "nvfp4", "quanto",     "quark",       "sinq",     "spqr",         "torchao",
                             "vptq",  "of_tomorrow"}) {
    expect_all_in(
        config_refusal({{"quant_method", method}, {"bits", 4}}),
        {"config.json] quantization_config.quant_method " + std::string(method) + ": not supported: it needs ",
         "GGUF"});
  }
  EXPECT_THAT(config_refusal({{"quant_method", "of_tomorrow"}}), HasSubstr("a method of its own"));
  EXPECT_THAT(config_refusal({{"quant_method", "awq"}}), HasSubstr("AWQ's packing"));
  EXPECT_THAT(config_refusal({{"load_in_4bit", true}}), HasSubstr("quant_method bitsandbytes: not supported"));
  EXPECT_THAT(config_refusal(Json::object()), HasSubstr("quantization_config: key quant_method is missing"));
  EXPECT_THAT(config_refusal(4), HasSubstr("quantization_config: expected an object, got 4"));
  EXPECT_EQ(config_refusal(nullptr), "");
  EXPECT_EQ(config_refusal({{"quant_method", "awq"}}, {{"quantization_config"}}), "");
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

/// Fills a folder with random weights in the shapes of a config.
void write_model(const HostileFolder& folder, const Json& config) {
  const TempFolder made;
  ThreadPool pool(1);
  init_checkpoint(config, "test", made / "model", DType::f32, 1, pool);
  for (const std::string name : {"config.json", "model.safetensors"}) {
    folder.write(read_file(made / ("model/" + name)), name);
  }
}

/// A model whose matrices have rows of whole blocks.
void widen(const HostileFolder& folder) {
  Json config = folder.json();
  const std::pair<const char*, int> kSizes[] = {{"hidden_size", 64},
                                                {"num_attention_heads", 4},
                                                {"num_key_value_heads", 2},
                                                {"intermediate_size", 96},
                                                {"head_dim", 16},
                                                {"moe_intermediate_size", 96},
                                                {"n_embd", 64},
                                                {"n_head", 4}};
  for (const auto& [key, size] : kSizes) {
    if (config.contains(key)) config[key] = size;
  }
  config.erase("mlp_only_layers");  // GGUF has experts in every layer
  write_model(folder, config);
}

struct Mxfp4 {
  StoredTensor blocks, scales, floats;
};

/// Random codes and exponents in the shape of a tensor, and their values.
Mxfp4 random_mxfp4(const StoredTensor& tensor, std::mt19937& random, Memory& memory) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::int64_t n = 1;
  for (const std::int64_t size : tensor.shape) n *= size;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n / 2)), exponents(static_cast<std::size_t>(n / 32));
  std::vector<float> floats;
  for (auto& e : exponents) e = static_cast<std::uint8_t>(121 + random() % 4);
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(random());
    for (const int code : {byte & 15, byte >> 4}) {
      const float value = std::ldexp(kValues[code & 7], exponents[floats.size() / 32] - 127);
      floats.push_back(code >= 8 ? -value : value);
    }
  }
  std::vector<std::int64_t> shape = tensor.shape;
  shape.back() /= 32;
  const Mxfp4 result{{"U8", {}, {}, memory.keep(bytes), ""},
                     {"U8", {}, shape, memory.keep(exponents), ""},
                     {"F32", DType::f32, tensor.shape, memory.keep(floats), ""}};
  shape.push_back(16);
  Mxfp4 shaped = result;
  shaped.blocks.shape = shape;
  return shaped;
}

StoredTensor transposed(const StoredTensor& tensor, Memory& memory) {
  const std::vector<float> from = floats_of(tensor);
  const auto rows = static_cast<std::size_t>(tensor.shape[0]), cols = static_cast<std::size_t>(tensor.shape[1]);
  std::vector<float> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i % cols * rows + i / cols] = from[i];
  return {"F32", DType::f32, {tensor.shape[1], tensor.shape[0]}, memory.keep(to), ""};
}

std::unique_ptr<Folders> mxfp4_folders(const char* golden) {
  auto folders = std::make_unique<Folders>(golden);
  for (const HostileFolder* const folder : {&folders->quantized, &folders->floats}) {
    widen(*folder);
    std::mt19937 random(11);
    edit_tensors(*folder, [&](std::map<std::string, StoredTensor>& tensors) {
      for (const auto& [name, tensor] : std::map(tensors)) {
        const bool is_transposed = name.ends_with("c_fc.weight");
        const bool is_expert = name.find("experts") != name.npos || name.find("put_linear") != name.npos;
        if (!is_expert && !is_transposed) continue;
        StoredTensor by_rows = tensor;
        if (is_transposed) std::swap(by_rows.shape[0], by_rows.shape[1]);
        const Mxfp4 made = random_mxfp4(by_rows, random, folders->memory);
        if (folder == &folders->floats) {
          tensors[name] = is_transposed ? transposed(made.floats, folders->memory) : made.floats;
          continue;
        }
        tensors.erase(name);
        tensors[name + "_blocks"] = made.blocks;
        tensors[name + "_scales"] = made.scales;
      }
    });
  }
  folders->quantized.edit_json([](Json& config) {
    config["quantization_config"] = {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}};
  });
  return folders;
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

TEST(QuantizedFolders, WeightsAreQuantizedAgainOnlyOnRequest) {
  const auto folders = fp8_folders("qwen3", {16, 16}), wider = fp8_folders("gemma2", {16, 16});
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
