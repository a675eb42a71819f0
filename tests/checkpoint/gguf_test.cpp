// A model computes the same in GGUF and Hugging Face format. Quantized weights compute like their dequantized values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf_support.h"
#include "checkpoint/hostile_folder.h"
#include "checkpoint/param_rows.h"
#include "model/norms.h"
#include "quant/block_format.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

std::vector<std::int32_t> ids_for(const Model& model) {
  return some_ids(model, std::min<std::int64_t>(40, model.config().max_seq_len));
}

/// Goldens whose config their family's architecture cannot express, with the reason.
const std::map<std::string, std::string> kRefused = {
    {"gemma2", "blocks.0.attention.score_scale"},      // llama.cpp derives it from the number of layers
    {"gemma2_f16", "blocks.0.attention.score_scale"},  //
    {"gpt2_relu", "blocks.0.mlp.activation: relu and gelu_pytorch_tanh"},  // its activation has no key
    {"gpt2_variant", "blocks.0.mlp.activation"},
    {"llama_dynamic_rope", "blocks.0.attention.rope.scaling: dynamic and"},  // no key for it
    {"llama_yarn_mscale", "blocks.0.attention.rope."},
    {"falcon_serial", "blocks.0."},
    {"gemma3", "blocks.0.attention.score_scale"},
    {"gemma3_tables", "blocks.0.attention.score_scale"},
    {"gpt_neox_serial", "blocks.0.attention."},
    {"qwen3_moe", "blocks.1: mlp and experts"},          // in GGUF all layers have experts
    {"cohere2_layer_types", "attention.window"},         // every fourth layer is full, or every n-th by a key
    {"exaone4", "the layers that have a window"},        // llama.cpp derives them from the number of layers
    {"dots1", "the number of K/V heads"},                // llama.cpp expects as many as query heads
    {"ernie4_5_moe", "router.min"},                      // no key for it
    {"gpt_oss", "clamped_swiglu.limit"},                 // llama.cpp assumes that of the published models
    {"llama4", "blocks.0: experts and mlp"},             // experts in every n-th layer, by a key
    {"internlm3", "attention.rope."},                    // no key for it
    {"mpt", "blocks.0.attention.score_scale"},           //
    {"deepseek_v3", "latent_attention.rope.magnitude"},  // llama.cpp derives it from the scale of scores
    {"deepseek_v2", "the rank of a group of experts"},   // llama.cpp ranks them by the two largest scores
    {"glm4_moe_lite", "latent_attention.rope_pairs"},    // no key for it
    {"granite_swa", "attention.rope.theta"},             // one for all layers
    {"mimo_v2_flash", "router.scale"},                   // llama.cpp has none
    {"minicpm3", "embedding_scale"},                     // a constant of the architecture
    {"gemma3n", "the number of streams"},                // constants of llama.cpp
    {"glm", "heads whose elements"},                     // llama.cpp has a matrix of d_model × d_model
    {"nemotron", "heads whose elements"},                //
    {"olmoe", "fewer K/V heads"},                        // llama.cpp's norm of k has d_model elements
    {"cohere_qk_norm", "the norms of q and k"},          // llama.cpp has them in models of 64 layers or more
    {"bamba", "mixer_activation"},                       // llama.cpp has SiLU
    {"jamba", "mixer_activation"},                       //
    {"falcon_h1", "norm_before_gate"},                   // llama.cpp has the gate first
    {"falcon_mamba", "step_norm.eps"},                   // one for all norms
    {"kimi_linear", "heads of delta nets"},              // as many as of attention
    {"lfm2", "mixer_bias"},                              // llama.cpp has no tensors for them
    {"mamba", "mixer_bias"},                             //
    {"mamba_short", "conv_bias"},                        //
    {"lfm2_moe", "router.scale"},                        // no key for it
    {"mamba2", "step_limits"},                           //
    {"nemotron_h", "dense layers"},                      // llama.cpp takes all for experts
    {"qwen3_5", "values of other sizes"},                // llama.cpp has one size of heads
    {"qwen3_5_moe", "attention.gate_bias"},              // llama.cpp has no tensors for it
    {"qwen3_next", "mlp and experts"},                   // llama.cpp has experts in all layers
};

/// A part of the message that refuses `golden`, or empty if it can be written as GGUF.
std::string refusal_of(const std::string& golden, const std::string& family) {
  for (const GgufArchitecture& known : all_gguf_architectures()) {
    const bool also = std::find(known.is_also.begin(), known.is_also.end(), family) != known.is_also.end();
    if (known.family != family && !also) continue;
    const auto refused = kRefused.find(golden);
    return refused == kRefused.end() ? "" : refused->second;
  }
  return "the family " + family;
}

/// Writes `original` as GGUF and compares the logits.
void expect_same_model(const Checkpoint& original, const std::string& path) {
  const Checkpoint gguf = through_gguf(original, DType::f32, path);
  const std::vector<std::int32_t> ids = ids_for(*gguf.model);
  const RunOptions f32{.compute = Compute::f32};
  const std::vector<float> ours = logits_of(*gguf.model, ids, f32), reference = logits_of(*original.model, ids, f32);
  const RopeConfig* const before = rope_of(original.model->config().blocks[0]);
  const RopeConfig* const after = rope_of(gguf.model->config().blocks[0]);
  // If the rows of q and k are permuted, scores are summed in another order, and at late positions the last bit of an
  // angle is large. Rates of decay are stored as A instead of log(−A). Otherwise the bits are the same.
  const bool is_permuted = before != nullptr && before->layout != after->layout;
  const bool has_rates = std::set<std::string>{"bamba", "granitemoehybrid", "jamba"}.contains(original.family);
  EXPECT_TRUE(is_permuted || has_rates ? difference(ours, reference) <= 2e-6F : same_bits(ours, reference));
}

class GgufOfGolden : public testing::TestWithParam<std::string> {};

TEST_P(GgufOfGolden, IsTheSameModel) {
  const TempFolder folder;
  const Checkpoint original = golden_checkpoint(GetParam());
  const std::string path = folder / "model.gguf";
  const std::string refusal = refusal_of(GetParam(), original.family);
  if (refusal.empty()) return expect_same_model(original, path);
  const std::string message = message_of<Unsupported>([&] { through_gguf(original, DType::f32, path); });
  expect_all_in(message, {"[" + path + "]", refusal});
  EXPECT_FALSE(std::filesystem::exists(path));
}

INSTANTIATE_TEST_SUITE_P(All, GgufOfGolden, testing::ValuesIn(golden_cases()),
                         [](const auto& param_info) { return param_info.param; });

/// Goldens that GGUF cannot express, without the features for which it has no keys.
struct Changed {
  std::string golden;
  Json words;
};

class GgufOfChangedGolden : public testing::TestWithParam<Changed> {};

TEST_P(GgufOfChangedGolden, IsTheSameModel) {
  const HostileFolder folder(GetParam().golden);
  folder.edit_json([](Json& config) { config.update(GetParam().words); });
  expect_same_model(load_checkpoint(folder.path()), folder / "model.gguf");
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufOfChangedGolden,
    testing::Values(
        Changed{"exaone4", {{"sliding_window", nullptr}, {"layer_types", nullptr}}},
        Changed{"cohere2_layer_types", {{"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}}}},
        Changed{"mpt", {{"attn_config", {{"clip_qkv", 2.0}, {"alibi_bias_max", 4}}}}},
        Changed{"mistral", {{"sliding_window", nullptr}}}, Changed{"mixtral", {{"sliding_window", nullptr}}},
        Changed{"qwen2_window", {{"use_sliding_window", false}, {"layer_types", nullptr}}},
        Changed{"llama_yarn_mscale",
                {{"rope_parameters",
                  {{"rope_type", "yarn"},
                   {"rope_theta", 1000.0},
                   {"factor", 4.0},
                   {"original_max_position_embeddings", 16},
                   {"beta_fast", 4.0},
                   {"mscale", 2.0},
                   {"mscale_all_dim", 0.5}}}}},
        Changed{"deepseek_v2", {{"topk_method", "greedy"}}},
        Changed{"granite_swa", {{"layer_rope_theta", {100, 100, 0}}, {"rope_parameters", {{"rope_theta", 100}}}}},
        Changed{"mimo_v2_flash", {{"routed_scaling_factor", 1.0}}},
        Changed{"minicpm3", {{"scale_emb", 12}, {"scale_depth", 1.4}, {"dim_model_base", 256}}},
        Changed{"starcoder2", {{"sliding_window", nullptr}}}, Changed{"gemma3", {{"query_pre_attn_scalar", 8}}},
        Changed{"gpt2_relu", {{"activation_function", "gelu_new"}}}, Changed{"phi3_short", {{"rope_scaling", nullptr}}},
        Changed{"phi3_long", {{"rope_scaling", nullptr}}}),
    [](const auto& param_info) { return param_info.param.golden; });

/// No golden has both experts in every layer and router weights that are divided by their sum.
TEST(Gguf, Qwen3WithExpertsInEveryLayer) {
  const TempFolder folder;
  const Json config = {{"architectures", {"Qwen3MoeForCausalLM"}},
                       {"model_type", "qwen3_moe"},
                       {"head_dim", 48},
                       {"moe_intermediate_size", 256},
                       {"num_experts", 6},
                       {"num_experts_per_tok", 3},
                       {"norm_topk_prob", true},
                       {"tie_word_embeddings", false}};
  const Checkpoint original = wide_llama(folder / "hf", config);
  expect_same_model(original, folder / "model.gguf");
  const Checkpoint gguf = load_checkpoint(folder / "model.gguf");
  EXPECT_EQ(gguf.family, "qwen3_moe");
  EXPECT_EQ(stored_types(*gguf.model).count("blocks.1.mlp.experts.5.w_down.weight"), 1U);

  Json other = config;
  other["norm_topk_prob"] = false;
  const Checkpoint as_they_are = wide_llama(folder / "other", other);
  const std::string path = folder / "other.gguf";
  expect_all_in(message_of<Unsupported>([&] { through_gguf(as_they_are, DType::f32, path); }),
                {"[" + path, "qwen3moe", "blocks.0.experts.renormalize: no and yes"});
}

/// A file has one eps for all norms.
TEST(Gguf, RefusesANormWithAnotherEps) {
  const TempFolder folder;
  const Checkpoint original = golden_checkpoint("llama_mha");
  const std::string path = folder / "model.gguf";
  through_gguf(original, DType::f32, path);
  const std::string header(MappedFile::open(path)->text());
  const GgufArchitecture& architecture = gguf_architecture_of(original, path);
  ModelConfig config = original.model->config();
  const auto refusal = [&] {
    return message_of<Unsupported>([&] { check_round_trip(architecture, header, {}, config, path); });
  };
  EXPECT_EQ(refusal(), "");
  config.final_norm->eps *= 2;
  expect_all_in(refusal(), {"[" + path + "]", "final_norm.eps: "});
}

/// The serial form, with the biases that the GGUF architecture always has.
TEST(Gguf, GptNeoxWithoutParallelResidual) {
  const HostileFolder folder("gpt_neox");
  folder.edit_json([](Json& config) { config["use_parallel_residual"] = false; });
  const Checkpoint original = load_checkpoint(folder.path());
  expect_same_model(original, folder / "model.gguf");
  const std::vector<std::int32_t> ids = ids_for(*original.model);
  EXPECT_FALSE(same_bits(logits_of(*original.model, ids), logits_of(*golden_checkpoint("gpt_neox").model, ids)));
}

/// Gemma 2 as published: scores are scaled by head_dim.
TEST(Gguf, Gemma2WithTheUsualScale) {
  const HostileFolder folder("gemma2_f16");
  folder.edit_json([](Json& config) { config["query_pre_attn_scalar"] = config["head_dim"]; });
  const Checkpoint original = load_checkpoint(folder.path());
  const Checkpoint gguf = through_gguf(original, DType::f16, folder / "model.gguf");
  const std::vector<std::int32_t> ids = ids_for(*original.model);
  // The norms are f16 here; GGUF stores w + 1 in f32, which is exact.
  EXPECT_TRUE(same_bits(logits_of(*gguf.model, ids), logits_of(*original.model, ids)));
  EXPECT_EQ(stored_types(*gguf.model).at("blocks.0.ln1.weight"), DType::f32);
  EXPECT_EQ(stored_types(*gguf.model).at("embed.weight"), DType::f16);
}

TEST(Gguf, FilesOfLlamaCppEqualTheirSafetensors) {
  const std::string folder = outside_data("gguf");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no gguf";
  const TempFolder temp;
  const Checkpoint original = load_checkpoint(outside_data("checkpoints/llama"));
  const std::vector<std::int32_t> ids = ids_for(*original.model);
  const Checkpoint f32 = load_checkpoint(folder + "/tiny_llama_f32.gguf");
  EXPECT_LE(difference(logits_of(*f32.model, ids), logits_of(*original.model, ids)), 2e-6F);
  const Checkpoint f16 = load_checkpoint(folder + "/tiny_llama_f16.gguf");
  const Checkpoint rounded = through_gguf(original, DType::f16, temp / "f16.gguf");
  EXPECT_TRUE(same_bits(logits_of(*f16.model, ids), logits_of(*rounded.model, ids)));

  write_file(temp / "config.json", read_file(folder + "/tiny_llama_q8_config.json"));
  write_file(temp / "model.safetensors", read_file(folder + "/tiny_llama_q8.safetensors"));
  const Checkpoint q8 = load_checkpoint(folder + "/tiny_llama_q8.gguf");
  const Checkpoint ours = through_gguf(load_checkpoint(temp.path()), DType::q8_0, temp / "q8.gguf");
  const std::vector<std::int32_t> q8_ids = ids_for(*q8.model);
  EXPECT_TRUE(same_bits(logits_of(*q8.model, q8_ids), logits_of(*ours.model, q8_ids))) << "quantized as by llama.cpp";
}

TEST(Gguf, BlocksHaveTheReferenceValues) {
  const std::string folder = outside_data("gguf");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no gguf";
  const auto file = MappedFile::open(folder + "/tiny_kquant.gguf");
  const Json expected = Json::parse(read_file(folder + "/tiny_kquant_ref.json"))["dequant"];
  const GgufContents contents = GgufMetadata::parse(file->bytes(), file->path()).contents();
  const std::map<std::string, DType> formats = {
      {"Q2_K", DType::q2_k}, {"Q4_K", DType::q4_k}, {"Q5_K", DType::q5_k}, {"Q6_K", DType::q6_k}};
  int compared = 0;
  for (const GgufTensor& tensor : contents.tensors) {
    const auto format = formats.find(std::string(tensor.name.substr(3, 4)));
    if (format == formats.end()) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
    dequantize_row(format->second, contents.data.data() + tensor.offset, tensor.shape[0], values.data());
    EXPECT_EQ(values, expected[format->first].get<std::vector<float>>()) << format->first;
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

/// Products of integers: close to `exact`, the logits of products of floats, and the same bits everywhere.
void expect_same_bits_everywhere(const Model& model, std::span<const std::int32_t> ids,
                                 const std::vector<float>& exact) {
  const std::vector<float> expected = logits_of(model, ids);
  EXPECT_FALSE(same_bits(expected, exact)) << "the products were not computed with integers";
  std::vector<double> errors;  // of rows; half of them, because a router that is undecided may choose other experts
  for (std::size_t t = 0; t < ids.size(); ++t) {
    double error = 0, size = 0;
    for (std::size_t i = t * exact.size() / ids.size(); i < (t + 1) * exact.size() / ids.size(); ++i) {
      error += std::pow(expected[i] - exact[i], 2), size += std::pow(exact[i], 2);
    }
    errors.push_back(std::sqrt(error / size));
  }
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.03);
  for (const Isa isa : available_isas()) {
    for (const int threads : {1, 2, 3}) {
      const RunOptions o{.kernels = &kernels_for(isa), .threads = threads};
      EXPECT_TRUE(same_bits(logits_of(model, ids, o), expected)) << name_of(isa);
      EXPECT_TRUE(same_bits(chunked_logits_of(model, ids, 7, o), expected)) << name_of(isa);
      EXPECT_TRUE(same_bits(chunked_logits_of(model, ids, 1, o), expected)) << name_of(isa);
    }
  }
}

class QuantizedProduct : public testing::TestWithParam<DType> {};

/// The same weights, in blocks and dequantized to f32, give the same bits in every chunking, on every instruction set
/// and with taps, if they are multiplied as float32.
TEST_P(QuantizedProduct, HasTheBitsOfItsDequantizedWeights) {
  const TempFolder folder;
  const Checkpoint original = wide_llama(folder / "hf");
  const Checkpoint blocks = through_gguf(original, GetParam(), folder / "blocks.gguf");
  const Checkpoint floats = through_gguf(blocks, DType::f32, folder / "floats.gguf");
  const auto types = stored_types(*blocks.model);
  EXPECT_EQ(types.at("blocks.1.mlp.w_gate.weight"), GetParam());
  EXPECT_EQ(types.at("blocks.1.ln2.weight"), DType::f32);
  EXPECT_EQ(types.at("embed.weight"), GetParam() == DType::q8_0 ? DType::q8_0 : DType::q6_k) << "the tied head";

  const std::vector<std::int32_t> ids = some_ids(*original.model, 30);
  const std::vector<float> expected = logits_of(*floats.model, ids);
  EXPECT_FALSE(same_bits(expected, logits_of(*original.model, ids))) << "quantization changed nothing";
  for (const Isa isa : available_isas()) {
    const RunOptions o{.kernels = &kernels_for(isa), .threads = 3, .compute = Compute::f32};
    EXPECT_TRUE(same_bits(logits_of(*blocks.model, ids, o), expected)) << name_of(isa);
    EXPECT_TRUE(same_bits(chunked_logits_of(*blocks.model, ids, 7, o), expected)) << name_of(isa);
    EXPECT_TRUE(same_bits(chunked_logits_of(*blocks.model, ids, 1, o), expected)) << name_of(isa);
  }
  Probe of_blocks(*blocks.model, {"*", "blocks.1.attn.hook_result", "blocks.1.hook_q_input"},
                  Probe::Replace::by_itself);
  Probe of_floats(*floats.model, {"*", "blocks.1.attn.hook_result", "blocks.1.hook_q_input"},
                  Probe::Replace::by_itself);
  EXPECT_TRUE(same_bits(logits_of(*blocks.model, ids, {.taps = &of_blocks, .compute = Compute::f32}), expected));
  EXPECT_TRUE(same_bits(logits_of(*floats.model, ids, {.taps = &of_floats}), expected));
  ASSERT_TRUE(of_blocks.values.contains("blocks.1.attn.hook_result"));
  for (const auto& [site, value] : of_floats.values) {
    EXPECT_TRUE(same_bits(of_blocks.values[site].data, value.data)) << site;
  }
}

/// Multiplied as integers, they give almost the same logits: the same bits in every chunking, on every instruction set,
/// on any number of threads and with taps.
TEST_P(QuantizedProduct, OfIntegersHasTheSameBitsEverywhere) {
  const TempFolder folder;
  const Checkpoint original = wide_llama(folder / "hf");
  const Checkpoint blocks = through_gguf(original, GetParam(), folder / "blocks.gguf");
  const std::vector<std::int32_t> ids = some_ids(*original.model, 30);
  expect_same_bits_everywhere(*blocks.model, ids, logits_of(*blocks.model, ids, {.compute = Compute::f32}));
  const std::vector<float> expected = logits_of(*blocks.model, ids);
  Probe taps(*blocks.model, {"*", "blocks.1.hook_q_input"}, Probe::Replace::by_itself);
  EXPECT_TRUE(same_bits(logits_of(*blocks.model, ids, {.taps = &taps}), expected));
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedProduct,
                         testing::Values(DType::q8_0, DType::q4_0, DType::q5_1, DType::q3_k, DType::q4_k, DType::iq4_nl,
                                         DType::iq4_xs),
                         [](const auto& param_info) { return std::string(name_of(param_info.param)); });

/// Written by llama-quantize: one random layer in each of the formats that have a table of values.
TEST(Gguf, FormatsWithATableOfValues) {
  const std::string folder = outside_data("quantized");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no quantized";
  for (const DType dtype : {DType::iq4_nl, DType::iq4_xs, DType::mxfp4}) {
    const Checkpoint checkpoint = load_checkpoint(folder + "/tiny." + std::string(name_of(dtype)) + ".gguf");
    int n_of_type = 0;
    for (const auto& [name, type] : stored_types(*checkpoint.model)) n_of_type += type == dtype ? 1 : 0;
    EXPECT_GE(n_of_type, dtype == DType::mxfp4 ? 1 : 4) << name_of(dtype);
    const std::vector<std::int32_t> ids = some_ids(*checkpoint.model, 30);
    expect_same_bits_everywhere(*checkpoint.model, ids, logits_of(*checkpoint.model, ids, {.compute = Compute::f32}));
  }
}

/// Blocks become other blocks only on request, and keep their bytes where they stay.
TEST(Gguf, QuantizingTwice) {
  const TempFolder folder;
  const Checkpoint original = wide_llama(folder / "hf");
  const Checkpoint once = through_gguf(original, DType::q4_k, folder / "once.gguf");
  const Checkpoint twice = through_gguf(once, DType::q4_k, folder / "twice.gguf");
  EXPECT_EQ(read_file(folder / "once.gguf"), read_file(folder / "twice.gguf"));
  const std::string out = folder / "out.gguf";
  const std::string message = message_of<BadInput>([&] { through_gguf(once, DType::q8_0, out); });
  expect_all_in(message, {out, "token_embd.weight is Q6_K", "Q8_0", "--allow-requantize"});
  EXPECT_FALSE(std::filesystem::exists(out));
  ThreadPool pool(2);
  GgufTypes types(DType::q8_0);
  types.allow_requantize = true;
  write_gguf(out, once, types, {}, pool);
  EXPECT_EQ(stored_types(*load_checkpoint(out).model).at("blocks.0.attn.wq.weight"), DType::q8_0);
}

/// The bytes depend neither on the number of threads nor on the instruction set; weights from an importance matrix
/// change them, for each expert on its own.
TEST(Gguf, ImportanceWeighsTheErrors) {
  const TempFolder folder;
  const Checkpoint original = wide_llama(folder / "hf");
  ImportanceMatrix matrix;
  matrix.path = "m.gguf";
  InputSquares& squares = matrix.tensors["blk.0.ffn_up.weight"];
  squares.counts = {10};
  for (int i = 0; i < 256; ++i) squares.sums.push_back(i < 8 ? 1000.0 : 1.0);
  GgufTypes types(DType::q4_k);
  const auto error = [&](const std::string& path) {  // of the first columns, which matter
    const Checkpoint written = load_checkpoint(path);
    double sum = 0;
    std::vector<float> x(256), y(256);
    for (std::int64_t row = 0; row < 512; ++row) {
      read_row(std::get<FfnParams>(original.model->params().blocks[0].sublayers[1].what).w_up.weight.view, row, x);
      read_row(std::get<FfnParams>(written.model->params().blocks[0].sublayers[1].what).w_up.weight.view, row, y);
      for (std::size_t i = 0; i < 8; ++i) sum += std::pow(x[i] - y[i], 2);
    }
    return sum;
  };
  const auto write = [&](const std::string& path, int threads) {
    ThreadPool pool(threads);
    write_gguf(path, original, types, {}, pool);
    return path;
  };
  const std::string plain = write(folder / "plain.gguf", 1);
  EXPECT_EQ(read_file(plain), read_file(write(folder / "threads.gguf", 3)));
  types.importance = &matrix;
  EXPECT_LT(error(write(folder / "weighted.gguf", 2)), 0.7 * error(plain));
}

/// All experts of a layer are in one tensor of blocks. The router is f32 in every file.
TEST(Gguf, ExpertsInBlocksHaveTheBitsOfTheirDequantizedWeights) {
  const TempFolder folder;
  const Json mixtral = {{"architectures", {"MixtralForCausalLM"}},
                        {"model_type", "mixtral"},
                        {"num_local_experts", 5},
                        {"num_experts_per_tok", 2}};
  const Checkpoint original = wide_llama(folder / "hf", mixtral);
  for (const DType dtype : {DType::q8_0, DType::q4_0}) {
    const std::string name = std::string(name_of(dtype));
    const Checkpoint blocks = through_gguf(original, dtype, folder / (name + ".gguf"));
    const Checkpoint floats = through_gguf(blocks, DType::f32, folder / (name + "_floats.gguf"));
    EXPECT_EQ(blocks.family, "mixtral");
    const auto types = stored_types(*blocks.model);
    EXPECT_EQ(types.at("blocks.1.mlp.experts.4.w_down.weight"), dtype);
    EXPECT_EQ(types.at("blocks.1.mlp.router.weight"), DType::f32);
    const std::vector<std::int32_t> ids = some_ids(*original.model, 30);
    const std::vector<float> expected = logits_of(*floats.model, ids);
    EXPECT_FALSE(same_bits(expected, logits_of(*original.model, ids))) << "quantization changed nothing";
    const RunOptions f32{.compute = Compute::f32};
    EXPECT_TRUE(same_bits(logits_of(*blocks.model, ids, f32), expected)) << name;
    EXPECT_TRUE(same_bits(chunked_logits_of(*blocks.model, ids, 7, f32), expected)) << name;
    expect_same_bits_everywhere(*blocks.model, ids, expected);
  }
}

/// With heads of 32 elements, a block of 256 spans several heads, and the columns of a head begin within a block.
TEST(Gguf, SourcesOfEveryFormatAreWritten) {
  const TempFolder folder;
  const Checkpoint original = wide_llama(folder / "hf");
  const std::vector<std::int32_t> ids = some_ids(*original.model, 12);
  const Checkpoint once = through_gguf(original, DType::bf16, folder / "once.gguf");
  const Checkpoint twice = through_gguf(once, DType::bf16, folder / "twice.gguf");
  EXPECT_TRUE(same_bits(logits_of(*once.model, ids), logits_of(*twice.model, ids)));
  EXPECT_EQ(read_file(folder / "once.gguf"), read_file(folder / "twice.gguf")) << "rewriting a GGUF file changed it";
  const std::string stories = outside_data("models/stories260K/stories260K.bin");
  if (stories.empty()) GTEST_SKIP() << "VITRINE_DATA has no stories260K";
  const Checkpoint llama2c = load_checkpoint(stories);
  const Checkpoint gguf = through_gguf(llama2c, DType::f32, folder / "stories.gguf");
  EXPECT_TRUE(same_bits(logits_of(*gguf.model, ids), logits_of(*llama2c.model, ids)));
}

TEST(Gguf, RowsThatAreNotWholeBlocksAreF16) {
  const TempFolder folder;
  const Checkpoint original = golden_checkpoint("llama_mha");
  const auto types = stored_types(*through_gguf(original, DType::q8_0, folder / "model.gguf").model);
  EXPECT_EQ(types.at("blocks.0.mlp.w_up.weight"), DType::f16);
  EXPECT_EQ(types.at("blocks.0.ln1.weight"), DType::f32);
}

}  // namespace
}  // namespace vitrine::test
