// Keys of published config.json files that no golden has because transformers no longer writes them. Keys without
// effect on the forward do not change a bit of the result, and other keys are rejected.
#include <gtest/gtest.h>

#include "checkpoint/hostile_folder.h"

namespace vitrine::test {
namespace {

std::vector<float> logits_with(const std::string& golden, const std::function<void(Json&)>& edit) {
  const HostileFolder folder(golden);
  folder.edit_json(edit);
  const Checkpoint checkpoint = load_checkpoint(folder.path());
  return logits_of(*checkpoint.model, golden_ids(golden), {});
}

std::function<void(Json&)> patch(const std::string& text) {
  return [text](Json& config) { config.merge_patch(Json::parse(text)); };
}

/// A golden and additional keys of a published model of its family.
struct Published {
  const char *model, *golden, *keys;
};

constexpr Published kPublished[] = {
    {"smollm2", "llama_mha", R"({"is_llama_config": true, "rope_interleaved": false, "neftune_noise_alpha": 5.0,
      "transformers.js_config": {"kv_cache_dtype": {"fp16": "float16"}}})"},
    {"yarn_llama_2", "llama_yarn_rope", R"({"rope_parameters": {"finetuned": true}})"},
    {"gpt2_medium", "gpt2", R"({"n_special": 0, "predict_special_tokens": true})"},
    {"gpt2_xl", "gpt2", R"({"output_past": true, "xla_device": false})"},
    {"distilgpt2", "gpt2", R"({"_num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}})"},
    {"gpt_neox_20b", "gpt_neox", R"({"attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0})"},
    {"dolly_v2", "gpt_neox", R"({"custom_pipelines": {"text-generation": {"impl": "a.B", "tf": "C"}}})"},
    {"phi_4_mini", "phi3_short",
     R"({"full_attn_mod": 1, "interpolate_factor": 1, "lm_head_bias": false, "mlp_bias": false})"},
    {"starcoder2_3b", "starcoder2", R"({"activation_function": "gelu", "attention_softmax_in_fp32": true,
      "layer_norm_epsilon": 0.5, "scale_attention_softmax_in_fp32": true, "scale_attn_weights": true})"},
    {"falcon_11b", "falcon_new", R"({"ff_factor": 4})"},
    {"llama_4_scout", "llama4", R"({"attn_temperature_tuning": 4, "for_llm_compressor": false})"},
    {"mimo_v2_flash", "mimo_v2_flash", R"({"rms_norm_eps": null, "layernorm_epsilon": 1e-5, "layer_types": null,
      "hybrid_layer_pattern": [0, 1, 0], "hybrid_block_size": null, "mlp_layer_types": null,
      "moe_layer_freq": [0, 1, 1], "sliding_window": 4, "sliding_window_size": 4, "attention_chunk_size": 4,
      "rope_parameters": null, "rope_theta": 100, "swa_rope_theta": 50, "partial_rotary_factor": 0.5,
      "swa_head_dim": 8, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_v_head_dim": 5,
      "add_swa_attention_sink_bias": true, "add_full_attention_sink_bias": false, "n_shared_experts": null,
      "scoring_func": "sigmoid", "topk_method": "noaux_tc"})"},
    {"gemma_2_9b", "gemma2", R"({"sliding_window_size": 4096})"},
    {"olmo_3", "olmo3", R"({"rope_parameters": null, "rope_theta": 1000, "rope_scaling": {"rope_type": "yarn",
      "factor": 4.0, "beta_fast": 4.0, "beta_slow": 0.5, "attention_factor": 1.2,
      "original_max_position_embeddings": 16}})"},
    {"hunyuan_7b", "hunyuan_v1_dense", R"({"add_classification_head": false, "class_num": 0, "dense_list": [4096, 0],
      "im_end_id": 5, "im_start_id": 4, "org_vocab_size": 29, "pad_id": 0, "pool_type": "last", "q_lora_rank": null,
      "text_end_id": 7, "text_start_id": 6, "use_rotary_pos_emb": true})"},
    {"internlm3_of_transformers", "internlm3",
     R"({"bias": null, "qkv_bias": null, "attention_bias": true, "mlp_bias": true})"},
    {"exaone_4_32b", "exaone4", R"({"sliding_window_pattern": "LLLG"})"},
    {"mamba_2", "mamba2", R"({"rescale_prenorm_residual": true})"},
    {"mamba", "mamba", R"({"rescale_prenorm_residual": true})"},
    {"command_r", "cohere", R"({"model_max_length": 131072})"},
};

class PublishedKeys : public testing::TestWithParam<Published> {};

TEST_P(PublishedKeys, ChangeNoBit) {
  const auto [model, golden, keys] = GetParam();
  EXPECT_EQ(logits_with(golden, patch(keys)), logits_with(golden, [](Json&) {}));
}

INSTANTIATE_TEST_SUITE_P(Each, PublishedKeys, testing::ValuesIn(kPublished),
                         [](const auto& param_info) { return std::string(param_info.param.model); });

TEST(PublishedRefusals, KeysThatWouldChangeTheForward) {
  const auto expect_refused = [](const std::string& golden, const std::string& text, const std::string& key) {
    const HostileFolder folder(golden);
    folder.edit_json(patch(text));
    expect_all_in(refusal(folder.path()), {"config.json]", key});
  };
  expect_refused("llama_mha", R"({"rope_interleaved": true})", "rope_interleaved");
  expect_refused("phi3_short", R"({"mlp_bias": true})", "mlp_bias");
  expect_refused("phi3_short", R"({"lm_head_bias": true})", "lm_head_bias");
  expect_refused("phi3_short", R"({"full_attn_mod": 2})", "full_attn_mod");
  expect_refused("phi3_short", R"({"interpolate_factor": 2})", "interpolate_factor");
  expect_refused("starcoder2", R"({"scale_attn_weights": false})", "scale_attn_weights");
  expect_refused("hunyuan_v1_dense", R"({"use_cla": true})", "use_cla");
  expect_refused("hunyuan_v1_dense", R"({"use_qk_norm": false})", "use_qk_norm");
  expect_refused("hunyuan_v1_dense", R"({"norm_type": "layer"})", "norm_type");
  expect_refused("internlm3", R"({"bias": false})", "qkv_bias and bias");
  expect_refused("exaone4", R"({"layer_types": null, "sliding_window_pattern": "LXG"})", "sliding_window_pattern");
  expect_refused("exaone4", R"({"layer_types": null, "sliding_window_pattern": "GGL"})", "sliding_window_pattern");
  expect_refused("olmo", R"({"layer_norm_eps": 1e-06})", "layer_norm_eps");
}

/// LongRoPE's magnitude depends on the context, which defaults to that of the family.
TEST(PublishedDefaults, AScalingUsesTheFamilysContext) {
  const auto with_context = [](const Json& context) {
    return logits_with("phi3_long", [&](Json& config) {
      config.erase("max_position_embeddings");
      if (!context.is_null()) config["max_position_embeddings"] = context;
    });
  };
  EXPECT_EQ(with_context(nullptr), with_context(4096));
  EXPECT_NE(with_context(nullptr), with_context(2048));
}

TEST(PublishedDefaults, LettersSayWhichLayersHaveAWindow) {
  const auto logits = [](const Json& types, const Json& pattern) {
    return logits_with("exaone4", [&](Json& config) {
      config["layer_types"] = types;
      config["sliding_window_pattern"] = pattern;
    });
  };
  const Json types = {"sliding_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(logits(nullptr, "LLG"), logits(types, 4));
  EXPECT_EQ(logits(nullptr, "LLGLL"), logits(types, 4));
  EXPECT_NE(logits(nullptr, "LGG"), logits(types, 4));
}

/// rope_theta may appear in the table alone. Two different values are refused.
TEST(PublishedDefaults, ThetaMayBeInTheTable) {
  const auto with_theta = [](const Json& outside, const Json& inside) {
    return [=](Json& config) {
      config.erase("rope_parameters");
      config.erase("rope_theta");
      config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2}};
      if (!outside.is_null()) config["rope_theta"] = outside;
      if (!inside.is_null()) config["rope_scaling"]["rope_theta"] = inside;
    };
  };
  const auto logits = [&](const Json& outside, const Json& inside) {
    return logits_with("llama_mha", with_theta(outside, inside));
  };
  EXPECT_EQ(logits(nullptr, 500), logits(500, nullptr));
  EXPECT_NE(logits(nullptr, 500), logits(nullptr, nullptr));
  const HostileFolder folder("llama_mha");
  folder.edit_json(with_theta(500, 600));
  expect_all_in(refusal(folder.path()), {"rope_scaling]", "rope_theta", "500"});
}

/// Early versions of transformers stored RoPE's frequencies in every layer of every family.
TEST(PublishedTensors, StoredFrequenciesAreIgnored) {
  for (const char* golden : {"llama_mha", "mistral", "qwen3", "phi", "gemma2"}) {
    const HostileFolder folder(golden);
    folder.edit_header([](Json& header) {
      header["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
          {"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
    });
    EXPECT_EQ(refusal(folder.path()), "") << golden;
  }
}

TEST(PublishedTensors, APickleIsNamedAndNotRead) {
  const HostileFolder folder("gpt2");
  std::filesystem::remove(folder / "model.safetensors");
  EXPECT_THAT(refusal(folder.path()), testing::Not(testing::HasSubstr("pytorch_model.bin")));
  folder.write("PK", "pytorch_model.bin");
  expect_all_in(refusal(folder.path()), {"expected model.safetensors", "pytorch_model.bin", "save it as safetensors"});
}

/// A window of null means no window, for any value of use_sliding_window.
TEST(PublishedDefaults, ANullWindowMeansNone) {
  const HostileFolder folder("qwen2_window");
  const auto set = [](Json& config) {
    config.erase("layer_types");
    config["use_sliding_window"] = true;
    config["max_window_layers"] = 0;
    config["sliding_window"] = nullptr;
  };
  folder.edit_json(set);
  const Checkpoint checkpoint = load_checkpoint(folder.path());
  for (const BlockConfig& block : checkpoint.model->config().blocks) EXPECT_FALSE(find<AttentionConfig>(block)->window);
  folder.edit_json([](Json& config) { config.erase("sliding_window"); });
  EXPECT_EQ(attention_of(load_checkpoint(folder.path()).model->config(), 0)->window, 4096);
  folder.edit_json([&](Json& config) {
    set(config);
    config["layer_types"] =
        std::vector<std::string>(config["num_hidden_layers"].get<std::size_t>(), "sliding_attention");
  });
  expect_all_in(refusal(folder.path()), {"config.json]", "layer_types", "sliding_window"});
}

}  // namespace
}  // namespace vitrine::test
