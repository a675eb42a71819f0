// Wrappers (models that read images or sounds around a text model), tensors that are left out, and types that are not
// supported.
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/bind_tensors.h"
#include "checkpoint/hostile_folder.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/wrapper.h"
#include "generate/context.h"
#include "parallel/thread_pool.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

/// How the tensors of a text half are named: the names of its model without the head begin with `model.`.
struct Form {
  const char* name;
  const char *base, *head;
};
constexpr Form kForms[] = {{"whole", "language_model.model.", "language_model."},
                           {"base", "model.language_model.", ""},
                           {"plain", "model.", ""}};

/// A golden in a wrapper: its config as text_config, its tensors under the names of `form`, and tensors of towers in a
/// type that vitrine does not read.
void wrap(const HostileFolder& folder, const char* type, const char* architecture, const Form& form) {
  const bool is_tied = type == std::string_view("gemma3");
  folder.edit_json([&](Json& config) {
    Json text = config;
    for (const char* key : {"architectures", "transformers_version", "torch_dtype", "bos_token_id"}) text.erase(key);
    config = {{"model_type", type},
              {"architectures", {architecture}},
              {"text_config", text},
              {"vision_config", {{"hidden_size", 8}}},
              {"torch_dtype", config["torch_dtype"]},
              {"bos_token_id", config["bos_token_id"]},
              {"tie_word_embeddings", config.value("tie_word_embeddings", is_tied)},
              {"image_token_index", 20}};
  });
  static const std::vector<std::byte> bytes(24);
  edit_tensors(folder, [&](auto& tensors) {
    std::map<std::string, StoredTensor> renamed;
    for (auto& [name, tensor] : tensors) {
      const bool in_base = name.starts_with("model.");
      renamed[in_base ? form.base + name.substr(6) : form.head + name] = tensor;
    }
    const std::string before = form.head[0] == '\0' ? "model." : "";
    renamed[before + "vision_tower.layers.0.weight"] = {"F8_E4M3", std::nullopt, {24}, bytes, ""};
    renamed[before + "vision_tower.layers.1.weight"] = {"F32", DType::f32, {2, 2}, std::span(bytes).first(16), ""};
    renamed[before + "multi_modal_projector.linear.bias"] = {"F32", DType::f32, {1}, std::span(bytes).first(4), ""};
    tensors = renamed;
  });
}

struct Case {
  const char *golden, *type, *architecture;
};

class Wrappers : public testing::TestWithParam<std::tuple<Case, Form>> {};

TEST_P(Wrappers, HaveTheBitsOfTheTextHalf) {
  const auto& [wrapped, form] = GetParam();
  const HostileFolder alone(wrapped.golden), folder(wrapped.golden);
  wrap(folder, wrapped.type, wrapped.architecture, form);
  const Checkpoint text = load_checkpoint(alone.path()), half = load_checkpoint(folder.path());
  const std::vector<std::int32_t> ids = golden_ids(wrapped.golden);
  EXPECT_TRUE(same_bits(logits_of(*half.model, ids), logits_of(*text.model, ids)));
  EXPECT_EQ(half.family, text.family);
  EXPECT_EQ(half.bos_id, text.bos_id);
  EXPECT_EQ(half.wrapper, wrapped.type);
  EXPECT_EQ(half.stored->all.size(), text.stored->all.size());
  ASSERT_EQ(half.unread.size(), 2U);
  const UnreadTensors &first = half.unread[0], &second = half.unread[1];
  EXPECT_EQ(first.what + " " + second.what, "multi_modal_projector vision_tower");
  EXPECT_EQ(first.count + 10 * second.count, 21);
  EXPECT_EQ(first.bytes + 1000 * second.bytes, 40004);

  // The config of the text half describes a model of its own.
  folder.write(half.config, "config.json");
  alone.write(half.config, "config.json");
  EXPECT_TRUE(same_bits(logits_of(*load_checkpoint(alone.path()).model, ids), logits_of(*text.model, ids)));
}

INSTANTIATE_TEST_SUITE_P(
    All, Wrappers,
    testing::Combine(testing::Values(Case{"gemma3", "gemma3", "Gemma3ForConditionalGeneration"},
                                     Case{"mistral", "mistral3", "Mistral3ForConditionalGeneration"},
                                     Case{"qwen3", "mistral3", "Mistral3ForConditionalGeneration"},
                                     Case{"mistral4", "mistral3", "Mistral3ForConditionalGeneration"},
                                     Case{"llama_mha", "llava", "LlavaForConditionalGeneration"},
                                     Case{"qwen3", "internvl", "InternVLForConditionalGeneration"}),
                     testing::ValuesIn(kForms)),
    [](const auto& param_info) {
      return std::string(std::get<0>(param_info.param).golden) + "_in_" + std::get<0>(param_info.param).type + "_" +
             std::get<1>(param_info.param).name;
    });

/// Gemma 3 in its wrapper.
class OneWrapper : public testing::Test {
 protected:
  OneWrapper() { wrap(folder_, "gemma3", "Gemma3ForConditionalGeneration", kForms[0]); }

  std::string refusal_with(const char* key, const Json& value, const LoadOptions& options = {}) const {
    const Json good = folder_.json();
    folder_.edit_json([&](Json& config) { config[Json::json_pointer(key)] = value; });
    const std::string message = load_refusal(folder_.path(), options);
    folder_.write(good.dump(), "config.json");
    return message;
  }

  const HostileFolder folder_{"gemma3"};
};

TEST_F(OneWrapper, UnknownKeysAreRefusedOutsideAndInside) {
  EXPECT_EQ(refusal_with("/mm_tokens_per_image", 4), "");
  EXPECT_EQ(refusal_with("/vision_config/new_key", 4), "");
  EXPECT_THAT(refusal_with("/new_key", 4), HasSubstr("config.json] unknown key new_key"));
  EXPECT_THAT(refusal_with("/text_config/new_key", 4), HasSubstr("config.json, text_config] unknown key new_key"));
  EXPECT_EQ(refusal_with("/new_key", 4, {.allowed_config_keys = {"new_key"}}), "");
  EXPECT_THAT(refusal_with("/text_config", 4), HasSubstr("text_config: expected an object, got 4"));
  EXPECT_THAT(refusal_with("/text_config", nullptr), HasSubstr("key text_config is missing"));
  EXPECT_THAT(refusal_with("/text_config/model_type", 4), HasSubstr("model_type is missing"));
  EXPECT_THAT(refusal_with("/text_config/model_type", "deepseek_v32"),
              HasSubstr("model_type deepseek_v32: not supported: sparse attention by an indexer; nearest: "));
  EXPECT_THAT(refusal_with("/architectures", {"Gemma3ForTokens"}),
              HasSubstr("architectures: expected Gemma3ForConditionalGeneration"));
  EXPECT_THAT(refusal_with("/text_config/use_bidirectional_attention", true),
              HasSubstr("use_bidirectional_attention: expected null or false, got true"));
  EXPECT_THAT(refusal_with("/quantization_config", {{"quant_method", "hqq"}}), HasSubstr("quantization_config"));
}

TEST_F(OneWrapper, UnknownTensorsAreRefusedUnderTheirNameInTheFile) {
  const auto add = [&](const char* name) {
    edit_tensors(folder_, [&](auto& tensors) { tensors[name] = tensors.begin()->second; });
  };
  add("language_model.model.layers.0.extra.weight");
  EXPECT_THAT(load_refusal(folder_.path()),
              HasSubstr("tensor language_model.model.layers.0.extra.weight is not part of this model"));
  const LoadOptions allowed{{}, {"language_model.model.layers.0.extra.*"}};
  EXPECT_EQ(load_refusal(folder_.path(), allowed), "");
  add("vision_tower_2.weight");
  EXPECT_THAT(load_refusal(folder_.path(), allowed), HasSubstr("tensor vision_tower_2.weight is not part"));
  add("model.language_model.norm.weight");
  EXPECT_THAT(load_refusal(folder_.path()), HasSubstr("hold the same parameter"));
}

TEST_F(OneWrapper, ItsTieOverrulesThatOfTheText) {
  edit_tensors(folder_, [](auto& tensors) {
    tensors["language_model.lm_head.weight"] = tensors.at("language_model.model.embed_tokens.weight");
  });
  EXPECT_TRUE(load_checkpoint(folder_.path()).model->config().head.tied);
  folder_.edit_json([](Json& config) {
    config["text_config"]["tie_word_embeddings"] = true;
    config["tie_word_embeddings"] = false;
  });
  const Checkpoint untied = load_checkpoint(folder_.path());
  EXPECT_FALSE(untied.model->config().head.tied);
  EXPECT_EQ(Json::parse(untied.config)["tie_word_embeddings"], false);
}

TEST_F(OneWrapper, PlaceholdersInATextAreRefusedByName) {
  folder_.edit_json([](Json& config) { config["boi_token_index"] = 21; });
  const Checkpoint checkpoint = load_checkpoint(folder_.path());
  GenerateContext context;
  context.model = checkpoint.model.get();
  const auto message = [&](std::vector<std::int32_t> ids) {
    return message_of<BadInput>([&] { context.check_ids(ids); });
  };
  EXPECT_EQ(message({1, 2, 19, 22}), "");
  EXPECT_THAT(message({1, 20, 2}), HasSubstr("image token 20: this model's vision tower is not read"));
  EXPECT_THAT(message({21}), HasSubstr("image token 21: "));
  // The model itself may write one, as it may any other token.
  const std::int32_t ids[] = {1, 20};
  EXPECT_EQ(logits_of(*checkpoint.model, ids).size(), 2U * 29);
}

TEST_F(OneWrapper, MissingSizesAreThoseOfTransformers) {
  const Json config = {
      {"model_type", "gemma3"},
      {"text_config", {{"hidden_size", 2560}, {"intermediate_size", 10240}, {"num_hidden_layers", 34}}}};
  const TextHalf half = text_half(config, "config.json");
  const ModelConfig model = read_model_config(family_of(half.config, half.where), half.config, half.where);
  EXPECT_EQ(model.vocab_size, 262208);
  EXPECT_EQ(model.n_layers(), 34U);
  EXPECT_TRUE(model.head.tied);
  EXPECT_EQ(half.config["model_type"], "gemma3_text");
}

/// Published configs of Qwen2-VL have the keys of the text half outside, and positions of three parts.
TEST(FlatWrapper, IsReadAsItsTextHalf) {
  const HostileFolder alone("qwen2_window"), folder("qwen2_window");
  folder.edit_json([](Json& config) {
    config["model_type"] = "qwen2_5_vl";
    config["architectures"] = {"Qwen2_5_VLForConditionalGeneration"};
    config["vision_config"] = {{"depth", 2}};
    config["vision_start_token_id"] = 5;
    config["image_token_id"] = 6;
    config["rope_parameters"]["rope_type"] = "mrope";
    config["rope_parameters"]["mrope_section"] = {1, 1, 2};
  });
  const Checkpoint half = load_checkpoint(folder.path());
  const std::vector<std::int32_t> ids = golden_ids("qwen2_window");
  EXPECT_TRUE(same_bits(logits_of(*half.model, ids), logits_of(*load_checkpoint(alone.path()).model, ids)));
  EXPECT_EQ(Json::parse(half.config)["model_type"], "qwen2");
  folder.edit_json([](Json& config) { config["new_key"] = 6; });
  EXPECT_THAT(load_refusal(folder.path()), HasSubstr("unknown key new_key"));
}

/// transformers renames the layers of Kimi K2.5 when it saves them.
TEST(Kimi, LayersMayBeCalledBlocks) {
  const HostileFolder alone("llama_mha"), folder("llama_mha");
  wrap(folder, "kimi_k25", "Kimi_K25ForConditionalGeneration", kForms[0]);
  folder.edit_json([](Json& config) { config.erase("image_token_index"); });
  edit_tensors(folder, [](auto& tensors) {
    std::map<std::string, StoredTensor> renamed;
    for (auto& [name, tensor] : tensors) {
      constexpr std::string_view kLayers = "language_model.model.layers.";
      const bool is_text = name.starts_with(kLayers);
      renamed[is_text ? "language_model.model.blocks." + name.substr(kLayers.size()) : name] = tensor;
    }
    tensors = renamed;
  });
  const std::vector<std::int32_t> ids = golden_ids("llama_mha");
  EXPECT_TRUE(same_bits(logits_of(*load_checkpoint(folder.path()).model, ids),
                        logits_of(*load_checkpoint(alone.path()).model, ids)));
}

TEST(FurtherLayers, AreLeftOutIfTheConfigHasThem) {
  const HostileFolder folder("llama_mha");
  const std::vector<std::int32_t> ids = golden_ids("llama_mha");
  const std::vector<float> expected = logits_of(*load_checkpoint(folder.path()).model, ids);
  edit_tensors(folder, [](auto& tensors) {
    const StoredTensor& norm = tensors.at("model.norm.weight");
    tensors["mtp.norm.weight"] = tensors["model.mtp.0.weight"] = norm;
    tensors["model.layers.2.enorm.weight"] = tensors["model.layers.2.embed_tokens.weight"] = norm;
  });
  EXPECT_THAT(load_refusal(folder.path()), HasSubstr("model.layers.2.embed_tokens.weight is not part of this model"));
  folder.edit_json([](Json& config) { config["num_nextn_predict_layers"] = 1; });
  const Checkpoint checkpoint = load_checkpoint(folder.path());
  EXPECT_TRUE(same_bits(logits_of(*checkpoint.model, ids), expected));
  ASSERT_EQ(checkpoint.unread.size(), 1U);
  EXPECT_EQ(checkpoint.unread.front().count, 4);
  EXPECT_EQ(checkpoint.unread.front().bytes, 4 * 24 * 4);
  edit_tensors(folder, [](auto& tensors) { tensors["model.layers.3.enorm.weight"] = tensors.at("model.norm.weight"); });
  EXPECT_THAT(load_refusal(folder.path()), HasSubstr("model.layers.3.enorm.weight is not part of this model"));
}

TEST(UnsupportedTypes, AreNoFamiliesAndNameOne) {
  std::set<std::string_view> families, types;
  for (const Family& family : all_families()) families.insert(family.model_type);
  for (const UnsupportedType& type : unsupported_types()) {
    EXPECT_TRUE(types.insert(type.model_type).second) << type.model_type << " appears twice";
    EXPECT_FALSE(families.contains(type.model_type)) << type.model_type << " is a family";
    EXPECT_EQ(unsupported_type(type.nearest), nullptr) << type.nearest << " is not supported either";
    EXPECT_THAT(message_of<Unsupported>([&] {
                  family_of({{"model_type", type.model_type}}, "config.json");
                }),
                "[config.json] model_type " + std::string(type.model_type) +
                    ": not supported: " + std::string(type.mechanism) + "; nearest: " + std::string(type.nearest));
  }
  for (const vitrine::Wrapper& wrapper : all_wrappers()) {
    EXPECT_FALSE(types.contains(wrapper.model_type)) << wrapper.model_type << " is a wrapper";
  }
  EXPECT_GE(types.size(), 40U);
}

}  // namespace
}  // namespace vitrine::test
