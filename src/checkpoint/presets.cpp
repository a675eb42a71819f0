#include "checkpoint/presets.h"

#include <filesystem>

#include "base/error.h"
#include "base/nearest.h"
#include "checkpoint/config_json.h"

namespace vitrine {
namespace {

// clang-format off
constexpr Preset kPresets[] = {
    {"gemma-2b", "google/gemma-2b; Gemma Team 2024a, tables 1 and 2 (524,550,144 + 1,981,884,416, with 128 rows more)",
     2'506'172'416, R"({"architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_activation": "gelu_pytorch_tanh",
      "vocab_size": 256000, "max_position_embeddings": 8192, "head_dim": 256, "rms_norm_eps": 1e-06,
      "rope_theta": 10000.0, "attention_bias": false, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0,
      "torch_dtype": "bfloat16", "hidden_size": 2048, "num_hidden_layers": 18, "num_attention_heads": 8,
      "num_key_value_heads": 1, "intermediate_size": 16384})"},
    {"gemma-7b", "google/gemma-7b; Gemma Team 2024a, tables 1 and 2 (786,825,216 + 7,751,248,896, with 128 rows more)",
     8'537'680'896, R"({"architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_activation": "gelu_pytorch_tanh",
      "vocab_size": 256000, "max_position_embeddings": 8192, "head_dim": 256, "rms_norm_eps": 1e-06,
      "rope_theta": 10000.0, "attention_bias": false, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0,
      "torch_dtype": "bfloat16", "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
      "num_key_value_heads": 16, "intermediate_size": 24576})"},
    {"gemma-2-2b", "google/gemma-2-2b; Gemma Team 2024b, tables 1 and 2 (590 M + 2,024 M)",
     2'614'341'888, R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
      "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0,
      "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256, "sliding_window": 4096,
      "vocab_size": 256000, "max_position_embeddings": 8192, "head_dim": 256, "rms_norm_eps": 1e-06,
      "rope_theta": 10000.0, "attention_bias": false, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0,
      "torch_dtype": "bfloat16", "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8,
      "num_key_value_heads": 4, "intermediate_size": 9216})"},
    {"gemma-2-9b", "google/gemma-2-9b; Gemma Team 2024b, tables 1 and 2 (918 M + 8,324 M)",
     9'241'705'984, R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
      "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0,
      "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256, "sliding_window": 4096,
      "vocab_size": 256000, "max_position_embeddings": 8192, "head_dim": 256, "rms_norm_eps": 1e-06,
      "rope_theta": 10000.0, "attention_bias": false, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0,
      "torch_dtype": "bfloat16", "hidden_size": 3584, "num_hidden_layers": 42, "num_attention_heads": 16,
      "num_key_value_heads": 8, "intermediate_size": 14336})"},
    {"gemma-2-27b", "google/gemma-2-27b; Gemma Team 2024b, tables 1 and 2 (1,180 M + 26,047 M)",
     27'227'128'320, R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
      "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0,
      "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 144, "sliding_window": 4096,
      "vocab_size": 256000, "max_position_embeddings": 8192, "head_dim": 128, "rms_norm_eps": 1e-06,
      "rope_theta": 10000.0, "attention_bias": false, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0,
      "torch_dtype": "bfloat16", "hidden_size": 4608, "num_hidden_layers": 46, "num_attention_heads": 32,
      "num_key_value_heads": 16, "intermediate_size": 36864})"},
    {"llama-2-7b", "meta-llama/Llama-2-7b-hf; Touvron et al. 2023b (7B); 6,738,415,616 on its card",
     6'738'415'616, R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
      "attention_bias": false, "bos_token_id": 1, "eos_token_id": 2, "rms_norm_eps": 1e-05,
      "rope_theta": 10000.0, "tie_word_embeddings": false, "vocab_size": 32000,
      "max_position_embeddings": 4096, "torch_dtype": "float16", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008})"},
    {"llama-2-70b", "meta-llama/Llama-2-70b-hf; Touvron et al. 2023b (70B); 68,976,648,192 on its card",
     68'976'648'192, R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
      "attention_bias": false, "bos_token_id": 1, "eos_token_id": 2, "rms_norm_eps": 1e-05,
      "rope_theta": 10000.0, "tie_word_embeddings": false, "vocab_size": 32000,
      "max_position_embeddings": 4096, "torch_dtype": "float16", "hidden_size": 8192, "num_hidden_layers": 80,
      "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672})"},
    {"llama-3.1-8b", "meta-llama/Llama-3.1-8B; Llama Team 2024, table 3 (8B); 8,030,261,248 on its card",
     8'030'261'248, R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
      "attention_bias": false, "bos_token_id": 128000, "eos_token_id": 128001, "rms_norm_eps": 1e-05,
      "rope_theta": 500000.0, "tie_word_embeddings": false, "vocab_size": 128256,
      "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 14336, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})"},
    {"llama-3.2-1b", "meta-llama/Llama-3.2-1B; 1,235,814,400 on its card (1.23B)",
     1'235'814'400, R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
      "attention_bias": false, "bos_token_id": 128000, "eos_token_id": 128001, "rms_norm_eps": 1e-05,
      "rope_theta": 500000.0, "tie_word_embeddings": true, "vocab_size": 128256,
      "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "hidden_size": 2048,
      "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192,
      "head_dim": 64, "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})"},
    {"gpt2", "openai-community/gpt2; Radford et al. 2019, table 2 (117M there; 124M as released)",
     124'439'808, R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
      "layer_norm_epsilon": 1e-05, "n_positions": 1024, "vocab_size": 50257, "bos_token_id": 50256,
      "eos_token_id": 50256, "torch_dtype": "float32", "n_embd": 768, "n_layer": 12, "n_head": 12})"},
    {"gpt2-medium", "openai-community/gpt2-medium; Radford et al. 2019, table 2 (345M there; 355M as released)",
     354'823'168, R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
      "layer_norm_epsilon": 1e-05, "n_positions": 1024, "vocab_size": 50257, "bos_token_id": 50256,
      "eos_token_id": 50256, "torch_dtype": "float32", "n_embd": 1024, "n_layer": 24, "n_head": 16})"},
    {"gpt2-xl", "openai-community/gpt2-xl; Radford et al. 2019, table 2 (1542M there; 1558M as released)",
     1'557'611'200, R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
      "layer_norm_epsilon": 1e-05, "n_positions": 1024, "vocab_size": 50257, "bos_token_id": 50256,
      "eos_token_id": 50256, "torch_dtype": "float32", "n_embd": 1600, "n_layer": 48, "n_head": 25})"},
    {"gpt3-175b", "Brown et al. 2020, table 2.1 (175.0B); every layer dense here, every second one banded there",
     174'604'259'328, R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
      "layer_norm_epsilon": 1e-05, "n_positions": 2048, "vocab_size": 50257, "bos_token_id": 50256,
      "eos_token_id": 50256, "torch_dtype": "float32", "n_embd": 12288, "n_layer": 96, "n_head": 96})"},
};
// clang-format on

}  // namespace

std::span<const Preset> all_presets() { return kPresets; }

Json preset_or_config(const std::string& name_or_path) {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    if (preset.name == name_or_path) return parse_json(preset.config, preset.name);
    names.emplace_back(preset.name);
  }
  std::error_code error;
  if (!std::filesystem::exists(name_or_path, error) && !error) {
    std::string hint = did_you_mean(name_or_path, names);
    if (hint.empty()) hint = did_you_mean_file(name_or_path);
    throw BadInput(name_or_path, "expected a preset or a config.json{}", hint);
  }
  const bool is_folder = std::filesystem::is_directory(name_or_path, error);
  return read_json_file(is_folder ? name_or_path + "/config.json" : name_or_path);
}

void set_config_keys(Json& config, const std::vector<std::string>& assignments, const std::string& where) {
  const Family& family = family_of(config, where);
  for (const std::string& text : assignments) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw BadInput("--set", "expected KEY=VALUE as in d_model=64, got \"{}\"", text);
    }
    std::string key = text.substr(0, equals);
    for (const Family::Key& known : family.keys) {
      if (known.ours == key) key = known.theirs;
    }
    const std::string value = text.substr(equals + 1);
    const Json parsed = Json::parse(value, nullptr, false);
    config[key] = parsed.is_discarded() ? Json(value) : parsed;
  }
}

}  // namespace vitrine
