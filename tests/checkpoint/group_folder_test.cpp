// Folders of GPTQ, AWQ, bitsandbytes and compressed-tensors: the logits of the dequantized weights, the same bits in
// every phase and on every instruction set, and what is refused.
#include <gtest/gtest.h>

#include "checkpoint/group_folders.h"
#include "checkpoint/param_rows.h"

namespace vitrine::test {
namespace {

constexpr const char* kFolders[] = {"awq-32",        "bnb-int8", "bnb-nf4", "bnb-nf4-nested", "ct-fp8",   "ct-w4a16",
                                    "ct-w4a16-asym", "ct-w8a8",  "gptq",    "gptq-3",         "gptq-act", "gptq-v2"};

void expect_bits_in_every_phase(const Model& model, std::span<const std::int32_t> ids,
                                const std::vector<float>& expected, Compute compute) {
  for (const Isa isa : available_isas()) {
    const RunOptions options = {.kernels = &kernels_for(isa), .compute = compute};
    EXPECT_TRUE(same_bits(logits_of(model, ids, options), expected)) << name_of(isa);
    for (const std::int64_t chunk : {1, 3}) {
      EXPECT_TRUE(same_bits(chunked_logits_of(model, ids, chunk, options), expected)) << name_of(isa) << ' ' << chunk;
    }
  }
  EXPECT_TRUE(same_bits(logits_of(model, ids, {.threads = 3, .compute = compute}), expected)) << "three threads";
}

/// Without values, what is known of the model is the same.
void expect_known_by_headers(const std::string& path, const Checkpoint& checkpoint) {
  const auto layouts_of = [](const Checkpoint& of) {
    std::map<std::string, std::tuple<DType, std::int64_t, std::int64_t, bool>> layouts;
    for_each_param(of.model->config(), of.model->params(),
                   [&](const Param& param, const std::string& name, const Shape&) {
                     const MatrixView& w = param.view;
                     const bool has_zeros = w.scales.groups != nullptr && w.scales.groups->zeros != nullptr;
                     layouts[name] = {w.dtype, w.row_stride, w.scales.block_cols, has_zeros};
                   });
    return layouts;
  };
  EXPECT_EQ(layouts_of(load_checkpoint(path, {{}, {}, true})), layouts_of(checkpoint));
}

class GroupFolders : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = outside_data(std::string("home/quantized/") + GetParam());
    if (folder_.empty()) GTEST_SKIP() << "VITRINE_DATA has no home/quantized";
    checkpoint_ = load_checkpoint(folder_);
    ids_ = Json::parse(read_file(folder_ + "/expected.json")).at("ids").get<std::vector<std::int32_t>>();
  }

  std::string folder_;
  Checkpoint checkpoint_;
  std::vector<std::int32_t> ids_;
};

TEST_P(GroupFolders, HaveTheLogitsOfTheDequantizedWeights) {
  const SafetensorsFile expected = SafetensorsFile::open(folder_ + "/expected.safetensors");
  const std::vector<float> logits = floats_of(expected.tensors().at("logits"));
  const std::vector<float> ours = logits_of(*checkpoint_.model, ids_, {.compute = Compute::f32});
  ASSERT_EQ(ours.size(), logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(ours[i], logits[i], 1e-5) << i;
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const std::vector<float> matrix = floats_of(expected.tensors().at(name));
  MatrixView down;
  for_each_param(checkpoint_.model->config(), checkpoint_.model->params(),
                 [&](const Param& param, const std::string&, const Shape&) {
                   if (param.stored_name == name) down = param.view;
                 });
  ASSERT_TRUE(has_groups(down.dtype) || down.dtype == DType::f8_e4m3);
  std::vector<float> row(static_cast<std::size_t>(down.cols));
  for (std::int64_t r = 0; r < down.rows; ++r) {
    read_row(down, r, row);
    for (std::size_t c = 0; c < row.size(); ++c) {
      const float value = matrix[static_cast<std::size_t>(r) * row.size() + c];
      ASSERT_NEAR(row[c], value, 2e-7f * std::abs(value)) << r << ' ' << c;
    }
  }
}

/// Products with integers round activations to 8 bits, so logits differ a little; the bits do not.
TEST_P(GroupFolders, HaveTheSameBitsInEveryPhase) {
  for (const Compute compute : {Compute::f32, Compute::automatic}) {
    expect_bits_in_every_phase(*checkpoint_.model, ids_, logits_of(*checkpoint_.model, ids_, {.compute = compute}),
                               compute);
  }
  const std::vector<float> exact = logits_of(*checkpoint_.model, ids_, {.compute = Compute::f32});
  const std::vector<float> rounded = logits_of(*checkpoint_.model, ids_);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(exact[i] - rounded[i], 2), size += std::pow(exact[i], 2);
  }
  EXPECT_LT(error, 4e-4 * size);
}

TEST_P(GroupFolders, AreKnownByTheirHeaders) { expect_known_by_headers(folder_, checkpoint_); }

INSTANTIATE_TEST_SUITE_P(All, GroupFolders, testing::ValuesIn(kFolders), [](const auto& param_info) {
  std::string name = param_info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

struct Case {
  const char* golden;
  Packing how;
};

class PackedFolders : public testing::TestWithParam<Case> {};

/// Rows of 24, 40, 64 and 96 columns; groups that end within blocks, and rows that do.
TEST_P(PackedFolders, HaveTheBitsOfTheDequantizedWeights) {
  const auto folders = group_folders(GetParam().golden, GetParam().how);
  const Checkpoint quantized = load_checkpoint(folders->quantized.path());
  const Checkpoint floats = load_checkpoint(folders->floats.path());
  const std::vector<std::int32_t> ids = some_ids(*floats.model, 21);
  expect_bits_in_every_phase(*quantized.model, ids, logits_of(*floats.model, ids), Compute::f32);
  expect_bits_in_every_phase(*quantized.model, ids, logits_of(*quantized.model, ids), Compute::automatic);
  expect_known_by_headers(folders->quantized.path(), quantized);
}

constexpr Case kCases[] = {
    {"llama_mha", {Packer::gptq, 4, 8}},
    {"llama_mha", {Packer::gptq, 8}},
    {"llama_mha", {Packer::gptq, 4, 16, true}},
    {"llama_mha", {Packer::gptq, 2, 32, true, true, false, true}},
    {"llama_mha", {Packer::gptq, 3, 16, false, true, false, true}},
    {"llama_mha", {Packer::gptq, 3, 64, true, true, false, true}},
    {"llama_mha", {Packer::gptq, 8, 32, true, true, false, true}},
    {"llama_mha", {Packer::awq, 4, 8}},
    {"llama_mha", {Packer::awq, 4, 0, false, true, false, true}},
    {"llama_mha", {Packer::table}},
    {"llama_mha", {Packer::table, 4, 0, false, true, true, true}},
    {"llama_mha", {Packer::signed_bytes, 8}},
    {"llama_mha", {Packer::signed_bytes, 8, 0, false, false, false, true}},
    {"llama_mha", {Packer::compressed, 4, 8, true}},
    {"llama_mha", {Packer::compressed, 8, 32, false, true, false, true}},
    {"llama_mha", {Packer::compressed, 4, 32, true, false, false, true}},
    {"llama_mha", {Packer::compressed_bytes, 8}},
    {"llama_mha", {Packer::compressed_bytes, 8, 32, false, true, false, true}},
    {"phi3_short", {Packer::gptq, 4, 8}},
    {"glm4", {Packer::compressed, 4, 32, false, true, false, true}},
};

INSTANTIATE_TEST_SUITE_P(All, PackedFolders, testing::ValuesIn(kCases),
                         [](const auto& param_info) { return std::to_string(param_info.index); });

/// A weight whose tensors do not fit together is refused by the name of one of them.
TEST(PackedFolder, TensorsThatDoNotFitAreRefused) {
  const std::string layer = "model.layers.1.mlp.down_proj";
  const auto refused = [&](const Packing& how, const std::function<void(Tensors&)>& change) {
    const auto folders = group_folders("llama_mha", how);
    edit_tensors(folders->quantized, change);
    return refusal(folders->quantized.path());
  };
  const Packing gptq = {Packer::gptq, 4, 8};
  EXPECT_EQ(refused(gptq, [](auto&) {}), "");
  for (const char* ending : {".qzeros", ".scales"}) {
    EXPECT_THAT(refused(gptq, [&](auto& tensors) { tensors.erase(layer + ending); }),
                testing::HasSubstr("tensor " + layer + ending + " is missing"));
    EXPECT_THAT(refused(gptq, [&](auto& tensors) { tensors.at(layer + ending) = tensors.at(layer + ".g_idx"); }),
                testing::HasSubstr("tensor " + layer + ending + ": expected"));
  }
  static const std::vector<std::int32_t> kIndices(40, 7);
  EXPECT_THAT(
      refused(gptq, [&](auto& tensors) { tensors.at(layer + ".g_idx").bytes = std::as_bytes(std::span(kIndices)); }),
      testing::HasSubstr(layer + ".g_idx: expected 8 columns in each of 5 groups"));
  EXPECT_THAT(refused(gptq, [&](auto& tensors) { tensors.erase(layer + ".qweight"); }), testing::HasSubstr(layer));
  const Packing table = {Packer::table};
  const std::string state = layer + ".weight.quant_state.bitsandbytes__nf4";
  EXPECT_THAT(refused(table, [&](auto& tensors) { tensors.erase(layer + ".weight.absmax"); }),
              testing::HasSubstr("absmax is missing"));
  static const std::string kText = R"({"blocksize": 64, "shape": [24, 41]})";
  EXPECT_THAT(refused(table,
                      [&](auto& tensors) {
                        tensors.at(state) = {"U8", {}, {std::ssize(kText)}, std::as_bytes(std::span(kText)), ""};
                      }),
              testing::HasSubstr("24 × 41 elements"));
  const Packing compressed = {Packer::compressed, 4, 8};
  EXPECT_THAT(refused(compressed,
                      [&](auto& tensors) {
                        tensors.at(layer + ".weight_scale").shape = {40, 3};
                      }),
              testing::HasSubstr("weight_scale: expected scales as config_groups says"));
}

/// What the config says of a module must be what its tensors are.
TEST(PackedFolder, ConfigsThatTensorsContradictAreRefused) {
  const auto refused = [](const Packing& how, const std::function<void(Json&)>& change) {
    const auto folders = group_folders("llama_mha", how);
    folders->quantized.edit_json([&](Json& config) { change(config["quantization_config"]); });
    return refusal(folders->quantized.path());
  };
  const Packing gptq = {Packer::gptq, 4, 8}, table = {Packer::table}, signed_bytes = {Packer::signed_bytes, 8};
  const Packing compressed = {Packer::compressed, 4, 8};
  const auto with_list = [&](const Packing& how, const char* key, const char* entry) {
    return refused(how, [&](Json& config) { config[key] = Json::array({entry}); });
  };
  for (const auto& [how, key] :
       {std::pair(gptq, "modules_to_not_convert"), {table, "llm_int8_skip_modules"}, {compressed, "ignore"}}) {
    EXPECT_EQ(with_list(how, key, "lm_head"), "") << key;
    EXPECT_THAT(with_list(how, key, "model.layers.1.mlp.up_proj"),
                testing::HasSubstr(std::string("quantization_config.") + key + " has its module"));
  }
  EXPECT_EQ(with_list(compressed, "ignore", "re:.*up_pro$"), "");
  EXPECT_EQ(with_list(compressed, "ignore", "re:up_proj"), "");  // matches from the beginning
  EXPECT_THAT(with_list(compressed, "ignore", "re:.*up_proj$"), testing::HasSubstr("ignore has its module"));
  EXPECT_THAT(with_list(compressed, "ignore", "re:("), testing::HasSubstr("missing closing parenthesis"));
  const auto bits_changed = [](Json& config) {
    const bool is_4_bits = config.value("load_in_4bit", false);
    config["load_in_4bit"] = !is_4_bits, config["load_in_8bit"] = is_4_bits;
  };
  EXPECT_THAT(refused(table, bits_changed), testing::HasSubstr("4 bits; quantization_config says 8"));
  EXPECT_THAT(refused(signed_bytes, bits_changed), testing::HasSubstr("8 bits; quantization_config says 4"));
  const auto in_group = [&](const char* key, const Json& value) {
    return refused(compressed, [&](Json& config) {
      Json& group = config["config_groups"]["group_0"];
      (key == std::string("targets") ? group : group["weights"])[key] = value;
    });
  };
  EXPECT_EQ(in_group("targets", {"re:.*_proj"}), "");
  EXPECT_THAT(in_group("targets", {"re:.*self_attn.*"}), testing::HasSubstr("no targets of config_groups"));
  EXPECT_THAT(in_group("symmetric", true), testing::HasSubstr("weight_zero_point: expected zeros"));
  EXPECT_THAT(in_group("num_bits", 8), testing::HasSubstr("weight_scale: expected scales as config_groups says"));
  EXPECT_THAT(in_group("group_size", 4), testing::HasSubstr("weight_scale: expected scales as config_groups says"));
  EXPECT_THAT(in_group("strategy", "channel"), testing::HasSubstr("strategy channel"));
  EXPECT_THAT(in_group("type", "float"), testing::HasSubstr("type float"));
}

/// compressed-tensors writes −1 for an order of columns that was never set.
TEST(PackedFolder, AnIndexOfMinusOneIsNoOrder) {
  const auto folders = group_folders("llama_mha", {Packer::compressed, 4, 8});
  const std::vector<std::int32_t> unset(24, -1);
  edit_tensors(folders->quantized, [&](Tensors& tensors) {
    tensors["model.layers.0.self_attn.q_proj.weight_g_idx"] = {"I32", {}, {24}, std::as_bytes(std::span(unset)), ""};
  });
  const Checkpoint quantized = load_checkpoint(folders->quantized.path());
  const Checkpoint floats = load_checkpoint(folders->floats.path());
  const std::vector<std::int32_t> ids = some_ids(*floats.model, 9);
  EXPECT_TRUE(same_bits(logits_of(*quantized.model, ids, {.compute = Compute::f32}), logits_of(*floats.model, ids)));
}

}  // namespace
}  // namespace vitrine::test
