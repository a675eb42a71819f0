// The types of tensors equal those of llama-quantize (tools/goldens quantization_mix), and what overrules them.
#include "checkpoint/gguf/quantization_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/gguf/types.h"
#include "checkpoint/hugging_face/config_json.h"
#include "model/dry_run.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

/// A model without weights.
Checkpoint checkpoint_of(const Json& config) {
  const Family& family = family_of(config, "config");
  Checkpoint checkpoint;
  checkpoint.model = std::make_shared<Model>(shape_model(read_model_config(family, config, "config")));
  checkpoint.family = family.model_type;
  return checkpoint;
}

/// The types as runs of layers, by the name without the layer.
std::map<std::string, std::string> runs_of(const GgufExport& plan) {
  std::map<std::string, std::vector<std::pair<int, std::string>>> runs;
  for (const PlannedTensor& tensor : plan.plan) {
    if (tensor.name.ends_with("norm.weight") || tensor.name.ends_with(".bias")) continue;
    const bool in_layer = tensor.name.starts_with("blk.");
    auto& own = runs[in_layer ? tensor.name.substr(tensor.name.find('.', 4) + 1) : tensor.name];
    const std::string type(ggml_type_of(tensor.dtype).name);
    if (own.empty() || own.back().second != type) own.emplace_back(0, type);
    ++own.back().first;
  }
  std::map<std::string, std::string> texts;
  for (const auto& [name, own] : runs) {
    std::string& text = texts[name];
    for (const auto& [count, type] : own) text += (text.empty() ? "" : " ") + std::to_string(count) + " " + type;
  }
  return texts;
}

TEST(QuantizationMix, EqualsThatOfLlamaCpp) {
  const Json goldens = Json::parse(read_file(source_dir() + "/tests/checkpoint/mix_goldens.json"));
  int n_compared = 0;
  for (const Json& golden : goldens) {
    const Checkpoint checkpoint = checkpoint_of(golden["config"]);
    for (const auto& [key, expected] : golden["types"].items()) {
      const std::string kind = key.substr(0, key.find(' '));
      ImportanceMatrix none;
      GgufTypes types(file_type_named(kind));
      if (kind != key) types.importance = &none;
      EXPECT_EQ(runs_of(plan_gguf("w", checkpoint, types)), (expected.get<std::map<std::string, std::string>>()))
          << golden["name"] << ", " << key;
      ++n_compared;
    }
  }
  EXPECT_GE(n_compared, 300);
}

Json small_llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 256},
          {"intermediate_size", 512},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 8},
          {"vocab_size", 64},
          {"max_position_embeddings", 64},
          {"tie_word_embeddings", false}};
}

DType type_in(const GgufExport& plan, const std::string& name) {
  for (const PlannedTensor& tensor : plan.plan) {
    if (tensor.name == name) return tensor.dtype;
  }
  ADD_FAILURE() << name;
  return DType::mxfp4;
}

TEST(QuantizationMix, OverridesAndPure) {
  const Checkpoint checkpoint = checkpoint_of(small_llama());
  GgufTypes types(file_type_named("q4_k"));
  EXPECT_EQ(types.file->name, "q4_k_m");
  types.overrides.push_back({std::regex("ffn_(up|gate)"), DType::q2_k});
  types.overrides.push_back({std::regex("^output\\.weight$"), DType::f16});
  types.overrides.push_back({std::regex("ffn_up"), DType::q8_0});  // the first match counts
  GgufExport plan = plan_gguf("w", checkpoint, types);
  EXPECT_EQ(type_in(plan, "blk.1.ffn_up.weight"), DType::q2_k);
  EXPECT_EQ(type_in(plan, "output.weight"), DType::f16);
  EXPECT_EQ(type_in(plan, "blk.1.ffn_down.weight"), DType::q6_k);
  EXPECT_EQ(type_in(plan, "blk.1.attn_norm.weight"), DType::f32);
  types.pure = true;
  plan = plan_gguf("w", checkpoint, types);
  EXPECT_EQ(type_in(plan, "blk.1.ffn_up.weight"), DType::q2_k);
  EXPECT_EQ(type_in(plan, "blk.1.ffn_down.weight"), DType::q4_k);
  EXPECT_EQ(type_in(plan, "token_embd.weight"), DType::q4_k);
}

TEST(QuantizationMix, Mxfp4IsForExperts) {
  Json config = small_llama();
  config.update({{"architectures", {"Qwen3MoeForCausalLM"}},
                 {"model_type", "qwen3_moe"},
                 {"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 64}});
  const GgufExport plan = plan_gguf("w", checkpoint_of(config), GgufTypes(file_type_named("mxfp4")));
  for (const char* name : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
    EXPECT_EQ(type_in(plan, "blk.1." + std::string(name) + ".weight"), DType::mxfp4);
  }
  for (const char* name : {"blk.0.attn_v.weight", "blk.1.attn_output.weight", "token_embd.weight", "output.weight"}) {
    EXPECT_EQ(type_in(plan, name), DType::q8_0) << name;
  }
  EXPECT_EQ(type_in(plan, "blk.0.ffn_gate_inp.weight"), DType::f32);
}

TEST(QuantizationMix, EveryTypeHasANameAndANumberOfItsOwn) {
  std::map<std::uint32_t, std::string_view> numbers;
  for (const FileType& type : file_types()) {
    EXPECT_TRUE(numbers.emplace(type.number, type.name).second) << type.name;
    EXPECT_EQ(&file_type_named(type.name), &type);
  }
  EXPECT_THROW(file_type_named("q9"), BadInput);
  EXPECT_EQ(fitting_type(DType::q4_k, 256), DType::q4_k);
  EXPECT_EQ(fitting_type(DType::q4_k, 640), DType::q5_0);
  EXPECT_EQ(fitting_type(DType::iq4_xs, 32), DType::iq4_nl);
  EXPECT_EQ(fitting_type(DType::q8_0, 80), DType::f16);
}

/// An importance matrix is of a model with the same tensors.
TEST(QuantizationMix, ImportanceMatrixOfAnotherModel) {
  const Checkpoint checkpoint = checkpoint_of(small_llama());
  ImportanceMatrix matrix;
  matrix.path = "m.gguf";
  GgufTypes types(file_type_named("q4_k_m"));
  types.importance = &matrix;
  matrix.tensors["blk.0.attn_q.weight"] = {std::vector<double>(256, 1.0), {4}};
  const GgufExport plan = plan_gguf("w", checkpoint, types);
  EXPECT_EQ(plan.unweighted.size(), 2 * 7U - 1);
  EXPECT_EQ(plan.unweighted.front(), "blk.1.attn_q.weight");
  matrix.tensors["blk.0.attn_k.weight"] = {std::vector<double>(256, 0.0), {0}};
  EXPECT_EQ(plan_gguf("w", checkpoint, types).unweighted.size(), 2 * 7U - 1) << "no inputs are no weights";
  matrix.tensors["blk.2.attn_q.weight"] = {std::vector<double>(256, 1.0), {4}};
  EXPECT_THROW(plan_gguf("w", checkpoint, types), BadInput) << "it has one layer more";
  matrix.tensors.erase("blk.2.attn_q.weight");
  matrix.tensors["blk.0.attn_q.weight"].sums.resize(128);
  EXPECT_THROW(plan_gguf("w", checkpoint, types), BadInput) << "it is narrower";
}

}  // namespace
}  // namespace vitrine::test
