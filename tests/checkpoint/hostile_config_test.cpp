// Broken config.json files: each key in turn gets other values. Either the model loads and runs, or an error names the
// key.
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/hostile_folder.h"

namespace vitrine::test {
namespace {

const std::string kGoldens[] = {
    "llama_mha", "llama_gqa_bf16_sharded", "llama3_rope", "llama_linear_rope", "gemma_mqa",  "gemma_mha_exact_key",
    "gemma2",    "gpt2_variant",           "gemma3",      "gpt_neox",          "falcon_new", "qwen3_moe",
    "granite"};

/// Keys that a reader knows but no golden has. They are tried in addition to the keys of each golden.
const char* const kFurtherKeys[] = {"head_dim",
                                    "num_key_value_heads",
                                    "rope_theta",
                                    "rope_scaling",
                                    "rope_parameters",
                                    "attention_bias",
                                    "mlp_bias",
                                    "layer_types",
                                    "sliding_window",
                                    "query_pre_attn_scalar",
                                    "attn_logit_softcapping",
                                    "final_logit_softcapping",
                                    "hidden_act",
                                    "hidden_activation",
                                    "activation_function",
                                    "use_bidirectional_attention",
                                    "is_encoder_decoder",
                                    "quantization_config",
                                    "add_cross_attention",
                                    "scale_attn_weights",
                                    "n_inner",
                                    "n_positions",
                                    "tie_word_embeddings",
                                    "rms_norm_eps",
                                    "layer_norm_epsilon",
                                    "max_position_embeddings",
                                    "sliding_window_pattern",
                                    "use_parallel_residual",
                                    "parallel_attn",
                                    "num_ln_in_parallel_attn",
                                    "num_experts",
                                    "num_experts_per_tok",
                                    "pruned_heads",
                                    "model_type",
                                    "architectures"};

const char* const kValues[] = {"null",
                               "\"text\"",
                               "-1",
                               "0",
                               "1",
                               "3",
                               "0.5",
                               "1e300",
                               "-1e300",
                               "1e-300",
                               "true",
                               "[]",
                               "{}",
                               "[null]",
                               "2147483646",
                               "2147483647",
                               "9223372036854775807",
                               "18446744073709551615",
                               "1e999999"};

class HostileConfig : public testing::TestWithParam<std::string> {};

TEST_P(HostileConfig, AnyKeyMayHoldAnything) {
  const HostileFolder folder(GetParam());
  const std::string good = folder.read("config.json");
  std::set<std::string> keys(std::begin(kFurtherKeys), std::end(kFurtherKeys));
  const Json config = Json::parse(good);
  for (const auto& [key, value] : config.items()) keys.insert(key);
  int refused = 0, accepted = 0;
  for (const std::string& key : keys) {
    for (const char* value : kValues) {
      SCOPED_TRACE(key + ": " + value);
      Json object = config;
      object.erase(key);
      std::string text = object.dump();
      text.replace(text.size() - 1, 1, ",\"" + key + "\":" + value + "}");
      folder.write(text, "config.json");
      const std::string message = refusal(folder.path());
      ++(message.empty() ? accepted : refused);
    }
  }
  EXPECT_GT(refused, 100) << accepted;
  EXPECT_GT(accepted, 100) << refused;
  folder.write(good, "config.json");
  EXPECT_EQ(refusal(folder.path()), "");
}

/// A refusal of a value by the reader names its key, and the file.
TEST_P(HostileConfig, ARefusedTypeNamesItsKey) {
  const HostileFolder folder(GetParam());
  const Json config = folder.json();
  const std::set<std::string> used = {"hidden_size",
                                      "n_embd",
                                      "vocab_size",
                                      "num_attention_heads",
                                      "n_head",
                                      "num_hidden_layers",
                                      "n_layer",
                                      "intermediate_size",
                                      "n_inner",
                                      "rms_norm_eps",
                                      "layer_norm_epsilon",
                                      "tie_word_embeddings",
                                      "hidden_act",
                                      "num_key_value_heads",
                                      "max_position_embeddings",
                                      "n_positions",
                                      "rope_theta",
                                      "rope_scaling",
                                      "rope_parameters",
                                      "attention_bias",
                                      "mlp_bias",
                                      "layer_types",
                                      "sliding_window",
                                      "query_pre_attn_scalar",
                                      "attn_logit_softcapping",
                                      "final_logit_softcapping",
                                      "hidden_activation",
                                      "activation_function",
                                      "scale_attn_by_inverse_layer_idx",
                                      "rope_local_base_freq",
                                      "sliding_window_pattern",
                                      "layer_norm_eps",
                                      "rotary_pct",
                                      "rotary_emb_base",
                                      "use_parallel_residual",
                                      "new_decoder_architecture",
                                      "num_kv_heads",
                                      "ffn_hidden_size",
                                      "multi_query",
                                      "parallel_attn",
                                      "num_ln_in_parallel_attn",
                                      "bias",
                                      "alibi",
                                      "activation",
                                      "num_local_experts",
                                      "num_experts_per_tok",
                                      "moe_intermediate_size",
                                      "decoder_sparse_step",
                                      "mlp_only_layers",
                                      "norm_topk_prob",
                                      "use_sliding_window",
                                      "embedding_multiplier",
                                      "logits_scaling",
                                      "residual_multiplier",
                                      "attention_multiplier",
                                      "eos_token_id",
                                      "bos_token_id",
                                      "model_type"};
  int named = 0;
  for (const auto& [key, value] : config.items()) {
    const bool unused = !used.contains(key) || (key == "hidden_act" && config["model_type"] == "gemma2") ||
                        (key == "sliding_window" && config.value("use_sliding_window", true) == false);
    if (unused) continue;
    folder.edit_json([&, k = key](Json& object) { object[k] = Json::parse(R"([[{"a": 1}]])"); });
    expect_all_in(refusal(folder.path()), {"config.json]", key});
    folder.write(config.dump(), "config.json");
    ++named;
  }
  EXPECT_GT(named, 8);
}

TEST_P(HostileConfig, AnUnknownKeyIsNamedAndMayBeAllowed) {
  const HostileFolder folder(GetParam());
  folder.edit_json([](Json& config) { config["my_new_mechanism"] = 3; });
  EXPECT_THROW(load_checkpoint(folder.path()), Unsupported);
  expect_all_in(refusal(folder.path()), {"config.json]", "my_new_mechanism", "--allow-config-key my_new_mechanism"});
  EXPECT_NE(refusal(folder.path(), {.allowed_config_keys = {"another"}}), "");
  EXPECT_EQ(refusal(folder.path(), {.allowed_config_keys = {"another", "my_new_mechanism"}}), "");
}

TEST_P(HostileConfig, UnknownKeysThatAreOffAndOtherSpellingsAreNoError) {
  const HostileFolder folder(GetParam());
  folder.edit_json([](Json& config) {
    config["odd_null"] = nullptr;
    config["odd_false"] = false;
    config["odd_zero"] = 0.0;
    config["architectures"][0] = "FSDP" + config["architectures"][0].get<std::string>();
  });
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST_P(HostileConfig, ASizeThatContradictsTheTensorsNamesATensor) {
  const HostileFolder folder(GetParam());
  const Json config = folder.json();
  for (const char* key :
       {"hidden_size", "n_embd", "vocab_size", "intermediate_size", "n_inner", "num_hidden_layers", "n_layer"}) {
    if (!config.contains(key)) continue;
    const bool is_width = std::string_view(key) == "hidden_size" || std::string_view(key) == "n_embd";
    const std::int64_t by = is_width ? config[key].get<std::int64_t>() : 1;
    folder.edit_json([&](Json& object) { object[key] = config[key].get<std::int64_t>() + by; });
    const bool by_types = config.contains("layer_types") && std::string_view(key) == "num_hidden_layers";
    expect_all_in(refusal(folder.path()), {by_types ? "layer_types" : "safetensors", by_types ? "layer" : "tensor "});
    folder.write(config.dump(), "config.json");
  }
}

INSTANTIATE_TEST_SUITE_P(Each, HostileConfig, testing::ValuesIn(kGoldens),
                         [](const auto& param_info) { return std::string(param_info.param); });

std::string refusal_with(const std::string& golden, const std::string& patch) {
  const HostileFolder folder(golden);
  folder.edit_json([&](Json& config) { config.merge_patch(Json::parse(patch)); });
  return refusal(folder.path());
}

TEST(HostileRope, UnsupportedScalings) {
  const auto rope = [](const std::string& scaling) {
    return refusal_with("llama_mha", R"({"rope_scaling": )" + scaling + "}");
  };
  EXPECT_EQ(rope(R"({"rope_type": "default"})"), "");
  EXPECT_EQ(rope(R"({"type": "linear", "factor": 2})"), "");
  EXPECT_EQ(rope(R"({"rope_type": "yarn", "factor": 4})"), "");
  EXPECT_EQ(rope(R"({"type": "dynamic", "factor": 4})"), "");
  expect_all_in(rope(R"({"rope_type": "yarn"})"), {"config.json, rope_scaling]", "factor"});
  expect_all_in(rope(R"({"rope_type": "yarn", "factor": 4, "beta_fast": -1})"), {"rope_scaling]", "beta_fast"});
  expect_all_in(rope(R"({"type": "dynamic", "factor": 0.5})"), {"config.json, rope_scaling]", "factor"});
  expect_all_in(rope(R"({"rope_type": "longrope", "short_factor": [1, 1, 1]})"), {"rope_scaling]", "long_factor"});
  expect_all_in(rope(R"({"type": "su", "short_factor": [1, 1], "long_factor": [1, 1, 1]})"),
                {"rope_scaling]", "short_factor", "2"});
  expect_all_in(rope(R"({"type": "su", "short_factor": [1, 1, 0], "long_factor": [1, 1, 1]})"),
                {"rope_scaling]", "short_factor", "above 0"});
  expect_all_in(rope(R"({"type": "su", "short_factor": [1, 1, 1], "long_factor": [1, "1", 1]})"),
                {"rope_scaling]", "long_factor"});
  expect_all_in(rope(R"({"rope_type": "no such thing"})"), {"config.json, rope_scaling]", "no such thing"});
  expect_all_in(rope(R"({"rope_type": 3})"), {"config.json, rope_scaling]", "rope_type"});
  expect_all_in(rope(R"({"rope_type": "linear"})"), {"config.json, rope_scaling]", "factor"});
  expect_all_in(rope(R"({"rope_type": "linear", "factor": "2"})"), {"config.json, rope_scaling]", "factor"});
  for (const char* factor : {"0", "-1"}) {
    expect_all_in(rope(R"({"rope_type": "linear", "factor": )" + std::string(factor) + "}"),
                  {"rope_scaling]", "factor"});
  }
  expect_all_in(rope(R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1})"),
                {"rope_scaling]", "high_freq_factor"});
  expect_all_in(rope(R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1})"),
                {"rope_scaling]", "high_freq_factor"});
  expect_all_in(rope(R"({"rope_type": "linear", "factor": 2, "mscale": 1})"), {"rope_scaling]", "mscale"});
}

TEST(HostileRope, AnUnknownKeyInsideMayBeAllowedAsTheMessageSays) {
  const HostileFolder folder("llama_mha");
  folder.edit_json([](Json& config) {
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2}, {"mscale", 1}};
  });
  expect_all_in(refusal(folder.path()), {"--allow-config-key mscale"});
  EXPECT_EQ(refusal(folder.path(), {.allowed_config_keys = {"mscale"}}), "");
}

TEST(HostileRope, TwoTablesAreRefused) {
  expect_all_in(refusal_with("llama_mha", R"({"rope_scaling": {"type": "linear", "factor": 2},
                                              "rope_parameters": {"rope_type": "default", "rope_theta": 5}})"),
                {"config.json]", "rope_scaling", "rope_parameters"});
}

TEST(HostileRope, FrequenciesThatAreNotNumbers) {
  expect_all_in(refusal_with("llama_mha", R"({"rope_theta": 0})"), {"config.json]", "rope_theta"});
  expect_all_in(refusal_with("llama_mha", R"({"rope_theta": -10000})"), {"config.json]", "rope_theta"});
  expect_all_in(refusal_with("llama_mha", R"({"rope_theta": 1e-300})"), {"config.json]", "rope"});
}

TEST(HostileValues, AreNamed) {
  expect_all_in(refusal_with("gemma2", R"({"layer_types": ["full_attention"]})"), {"config.json]", "layer_types", "3"});
  expect_all_in(refusal_with("gemma2", R"({"layer_types": ["full_attention", "full_attention", "chunked"]})"),
                {"config.json]", "chunked"});
  for (const char* value : {"0", "-1", "-13"}) {
    expect_all_in(refusal_with("gemma2", R"({"query_pre_attn_scalar": )" + std::string(value) + "}"),
                  {"config.json]", "query_pre_attn_scalar"});
  }
  expect_all_in(refusal_with("gemma2", R"({"attn_logit_softcapping": 0})"), {"config.json]", "softcap"});
  expect_all_in(refusal_with("gemma2", R"({"final_logit_softcapping": -30})"), {"config.json]", "softcap"});
  expect_all_in(refusal_with("gemma2", R"({"use_bidirectional_attention": true})"),
                {"config.json]", "use_bidirectional_attention"});
  expect_all_in(refusal_with("llama_mha", R"({"hidden_act": "mish"})"), {"config.json]", "mish"});
  expect_all_in(refusal_with("llama_mha", R"({"rms_norm_eps": -1})"), {"config.json]", "eps"});
  expect_all_in(refusal_with("llama_mha", R"({"num_key_value_heads": 3})"),
                {"config.json]", "num_key_value_heads (3)"});
  expect_all_in(refusal_with("llama_mha", R"({"head_dim": 5})"), {"config.json]", "even"});
  expect_all_in(refusal_with("llama_mha", R"({"quantization_config": {}})"), {"config.json]", "quantization_config"});
  expect_all_in(refusal_with("llama_mha", R"({"model_type": "rwkv"})"), {"config.json]", "rwkv", "llama"});
  expect_all_in(refusal_with("llama_mha", R"({"model_type": null})"), {"config.json]", "model_type"});
  expect_all_in(refusal_with("llama_mha", R"({"architectures": ["LlamaForMultipleChoice"]})"),
                {"config.json]", "LlamaForMultipleChoice"});
  expect_all_in(refusal_with("llama_mha", R"({"hidden_size": null})"), {"config.json]", "hidden_size", "missing"});
  expect_all_in(refusal_with("llama_mha", R"({"eos_token_id": ["x"]})"), {"config.json]", "eos_token_id"});
  expect_all_in(refusal_with("gpt2_variant", R"({"add_cross_attention": true})"),
                {"config.json]", "add_cross_attention"});
  expect_all_in(refusal_with("llama_mha", R"({"pruned_heads": {"0": [1]}})"), {"config.json]", "pruned_heads"});
  EXPECT_EQ(refusal_with("llama_mha", R"({"pruned_heads": {}, "is_decoder": true, "tokenizer_class": "x"})"), "");
  expect_all_in(refusal_with("falcon_new", R"({"alibi": true})"), {"config.json]", "alibi"});
  expect_all_in(refusal_with("falcon_new", R"({"parallel_attn": false})"), {"config.json]", "parallel_attn"});
  expect_all_in(refusal_with("falcon_new", R"({"num_ln_in_parallel_attn": 3})"),
                {"config.json]", "num_ln_in_parallel_attn"});
  expect_all_in(refusal_with("cohere", R"({"use_qk_norm": true})"), {"safetensors]", "k_norm", "missing"});
  expect_all_in(refusal_with("cohere_qk_norm", R"({"use_qk_norm": false})"), {"safetensors]", "k_norm"});
  for (const char* text :
       {R"({"use_qk_norm": true})", R"({"rotary_pct": 0.5})", R"({"use_parallel_block": false})",
        R"({"use_gated_activation": false})", R"({"use_embedding_sharing": false})",
        R"({"position_embedding_type": "rope_neox"})", R"({"order_of_interleaved_layers": "global_attn_first"})"}) {
    const std::string key = Json::parse(text).begin().key();
    expect_all_in(refusal_with("cohere2", text), {"config.json]", key});
  }
  expect_all_in(refusal_with("cohere", R"({"logit_scale": 0})"), {"config.json]", "logit_scale"});
  expect_all_in(refusal_with("granite", R"({"residual_multiplier": -1})"), {"config.json]", "residual_multiplier"});
  expect_all_in(refusal_with("gemma3", R"({"attn_logit_softcapping": 50.0})"),
                {"config.json]", "attn_logit_softcapping"});
  expect_all_in(refusal_with("gemma3_tables", R"({"rope_parameters": {"chunked_attention": {}}})"),
                {"rope_parameters]", "chunked_attention"});
  expect_all_in(refusal_with("gpt_neox", R"({"rope_theta": 7})"), {"config.json]", "rotary_emb_base"});
  expect_all_in(refusal_with("gpt_neox", R"({"rotary_pct": 1.5})"), {"config.json]", "rotary_pct"});
  expect_all_in(refusal_with("phi3_long", R"({"attention_bias": true})"), {"config.json]", "attention_bias"});
  expect_all_in(refusal_with("qwen2_window", R"({"use_sliding_window": false})"),
                {"config.json]", "layer_types", "use_sliding_window"});
  expect_all_in(refusal_with("qwen3_moe", R"({"num_experts_per_tok": 7})"), {"config.json]", "top_k", "6"});
  expect_all_in(refusal_with("mixtral", R"({"num_local_experts": 6})"), {"safetensors]", "tensor "});
  expect_all_in(refusal_with("mixtral", R"({"num_local_experts": 4})"), {"safetensors]", "tensor "});
  expect_all_in(refusal_with("gpt2_variant", R"({"n_head": 5})"), {"config.json]", "5"});
}

/// Sizes are refused before memory is allocated for them.
TEST(HostileSizes, TakeNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers use additional memory";
#endif
  for (const char* patch :
       {R"({"head_dim": 2147483646})", R"({"head_dim": 100000, "num_hidden_layers": 10000})",
        R"({"num_hidden_layers": 10000})", R"({"hidden_size": 2147483646, "num_attention_heads": 1})",
        R"({"vocab_size": 2147483647, "intermediate_size": 2147483647})",
        R"({"num_hidden_layers": 10000, "max_position_embeddings": 2147483647})",
        R"({"num_attention_heads": 1000000, "num_key_value_heads": 1000000, "head_dim": 1000})"}) {
    std::string message;
    EXPECT_LT(peak_growth_mb([&] { message = refusal_with("llama_mha", patch); }), 300) << patch;
    EXPECT_NE(message, "") << patch;
  }
  for (const char* patch :
       {R"({"num_experts": 2147483647})", R"({"num_experts": 32768, "num_experts_per_tok": 1, "mlp_only_layers": []})",
        R"({"num_experts": 8, "num_hidden_layers": 4000})"}) {
    std::string message;
    EXPECT_LT(peak_growth_mb([&] { message = refusal_with("qwen3_moe", patch); }), 300) << patch;
    EXPECT_NE(message, "") << patch;
  }
}

TEST(HostileFiles, ThatAreNotAConfig) {
  const HostileFolder folder("llama_mha");
  const std::string good = folder.read("config.json");
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("null"), std::string("\xff\xfe{}"), good + good,
        std::string(100'000, '['), good.substr(0, good.size() / 2), std::string(4096, '\0')}) {
    folder.write(text, "config.json");
    expect_all_in(refusal(folder.path()), {"[" + (folder / "config.json")});
  }
  folder.write(R"({"model_type": "llama", "model_type": "gpt2"})", "config.json");
  expect_all_in(refusal(folder.path()), {"config.json]", "model_type", "twice"});
}

TEST(HostileFiles, GenerationConfig) {
  const HostileFolder folder("llama_mha");
  for (const char* bad : {"[]", "{", R"({"temperature": "hot"})", R"({"eos_token_id": {"a": 1}})",
                          R"({"do_sample": 1})", R"({"top_k": []})"}) {
    folder.write(bad, "generation_config.json");
    expect_all_in(refusal(folder.path()), {"generation_config.json]"});
  }
  for (const char* good : {"{}", R"({"eos_token_id": [-1, 2, 1000000, 18446744073709551615], "bos_token_id": null})",
                           R"({"top_k": 1e300})"}) {
    folder.write(good, "generation_config.json");
    EXPECT_EQ(refusal(folder.path()), "") << good;
  }
  folder.write(R"({"eos_token_id": [-1, 2, 1000000, 18446744073709551615]})", "generation_config.json");
  EXPECT_EQ(load_checkpoint(folder.path()).stop_ids, (std::vector<std::int32_t>{2}));
}

}  // namespace
}  // namespace vitrine::test
