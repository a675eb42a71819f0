#include "checkpoint/presets.h"

#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/nearest.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/wrapper.h"

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
     8'537'680'896, R"({"hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
      "num_key_value_heads": 16, "intermediate_size": 24576})", "gemma-2b"},
    {"gemma-2-2b", "google/gemma-2-2b; Gemma Team 2024b, tables 1 and 2 (590 M + 2,024 M)",
     2'614'341'888, R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
      "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256,
      "sliding_window": 4096, "hidden_size": 2304, "num_hidden_layers": 26, "num_key_value_heads": 4,
      "intermediate_size": 9216})", "gemma-2b"},
    {"gemma-2-9b", "google/gemma-2-9b; Gemma Team 2024b, tables 1 and 2 (918 M + 8,324 M)",
     9'241'705'984, R"({"hidden_size": 3584, "num_hidden_layers": 42, "num_attention_heads": 16,
      "num_key_value_heads": 8, "intermediate_size": 14336})", "gemma-2-2b"},
    {"gemma-2-27b", "google/gemma-2-27b; Gemma Team 2024b, tables 1 and 2 (1,180 M + 26,047 M)",
     27'227'128'320, R"({"query_pre_attn_scalar": 144, "head_dim": 128, "hidden_size": 4608,
      "num_hidden_layers": 46, "num_attention_heads": 32, "num_key_value_heads": 16,
      "intermediate_size": 36864})", "gemma-2-2b"},
    {"gemma-3-1b", "google/gemma-3-1b-pt; Gemma Team 2025, table 1 (302 M + 698 M)",
     999'885'952, R"({"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
      "attn_logit_softcapping": null, "final_logit_softcapping": null, "sliding_window": 512,
      "sliding_window_pattern": 6, "rope_theta": 1000000, "rope_local_base_freq": 10000, "rope_scaling": null,
      "vocab_size": 262144, "max_position_embeddings": 32768, "hidden_size": 1152, "num_attention_heads": 4,
      "num_key_value_heads": 1, "intermediate_size": 6912})", "gemma-2-2b"},
    {"gemma-3-4b", "google/gemma-3-4b-pt, its text part; Gemma Team 2025, table 1 (675 M + 3,209 M, with fewer rows)",
     3'880'263'168, R"({"sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
      "vocab_size": 262208, "max_position_embeddings": 131072, "hidden_size": 2560, "num_hidden_layers": 34,
      "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 10240})", "gemma-3-1b"},
    {"llama-2-7b", "meta-llama/Llama-2-7b-hf; Touvron et al. 2023b (7B); 6,738,415,616 on its card",
     6'738'415'616, R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
      "attention_bias": false, "bos_token_id": 1, "eos_token_id": 2, "rms_norm_eps": 1e-05,
      "rope_theta": 10000.0, "tie_word_embeddings": false, "vocab_size": 32000,
      "max_position_embeddings": 4096, "torch_dtype": "float16", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008})"},
    {"llama-2-70b", "meta-llama/Llama-2-70b-hf; Touvron et al. 2023b (70B); 68,976,648,192 on its card",
     68'976'648'192, R"({"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
      "num_key_value_heads": 8, "intermediate_size": 28672})", "llama-2-7b"},
    {"llama-3.1-8b", "meta-llama/Llama-3.1-8B; Llama Team 2024, table 3 (8B); 8,030,261,248 on its card",
     8'030'261'248, R"({"bos_token_id": 128000, "eos_token_id": 128001, "rope_theta": 500000.0,
      "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
      "num_key_value_heads": 8, "intermediate_size": 14336, "rope_scaling": {"rope_type": "llama3",
      "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}})", "llama-2-7b"},
    {"llama-3.2-1b", "meta-llama/Llama-3.2-1B; 1,235,814,400 on its card (1.23B)",
     1'235'814'400, R"({"tie_word_embeddings": true, "hidden_size": 2048, "num_hidden_layers": 16,
      "intermediate_size": 8192, "head_dim": 64, "rope_scaling": {"rope_type": "llama3", "factor": 32.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})", "llama-3.1-8b"},
    {"mistral-7b", "mistralai/Mistral-7B-v0.1; Jiang et al. 2023, table 1; 7,241,732,096 on its card",
     7'241'732'096, R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_act": "silu",
      "bos_token_id": 1, "eos_token_id": 2, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
      "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000,
      "max_position_embeddings": 32768, "torch_dtype": "bfloat16", "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 14336})"},
    {"mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1; Jiang et al. 2024, table 1 (47B); 46,702,792,704 on its card",
     46'702'792'704, R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
      "rope_theta": 1000000.0, "sliding_window": null, "num_local_experts": 8, "num_experts_per_tok": 2,
      "output_router_logits": false, "router_aux_loss_coef": 0.02})", "mistral-7b"},
    {"qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B; Qwen Team 2024 (0.5B); 494,032,768 on its card",
     494'032'768, R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu",
      "bos_token_id": 151643, "eos_token_id": 151643, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
      "sliding_window": 32768, "max_window_layers": 24, "use_sliding_window": false, "use_mrope": false,
      "tie_word_embeddings": true, "vocab_size": 151936, "max_position_embeddings": 32768,
      "torch_dtype": "bfloat16", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
      "num_key_value_heads": 2, "intermediate_size": 4864})"},
    {"qwen3-0.6b", "Qwen/Qwen3-0.6B; Qwen Team 2025, table 1 (0.6B)",
     596'049'920, R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu",
      "attention_bias": false, "bos_token_id": 151643, "eos_token_id": 151645, "rms_norm_eps": 1e-06,
      "rope_theta": 1000000, "rope_scaling": null, "sliding_window": null, "max_window_layers": 28,
      "use_sliding_window": false, "tie_word_embeddings": true, "vocab_size": 151936, "head_dim": 128,
      "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "hidden_size": 1024,
      "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
      "intermediate_size": 3072})"},
    {"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B; Qwen Team 2025, table 2 (30B); 30,532,122,624 on its card (30.5B)",
     30'532'122'624, R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
      "rope_theta": 1000000.0, "max_window_layers": 48, "tie_word_embeddings": false, "num_experts": 128,
      "num_experts_per_tok": 8, "norm_topk_prob": true, "moe_intermediate_size": 768,
      "decoder_sparse_step": 1, "mlp_only_layers": [], "output_router_logits": false,
      "router_aux_loss_coef": 0.001, "hidden_size": 2048, "num_hidden_layers": 48,
      "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 6144})", "qwen3-0.6b"},
    {"pythia-160m", "EleutherAI/pythia-160m; Biderman et al. 2023, table 1 (85,056,000 outside the embeddings)",
     162'322'944, R"({"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_act": "gelu",
      "bos_token_id": 0, "eos_token_id": 0, "layer_norm_eps": 1e-05, "rotary_emb_base": 10000,
      "rotary_pct": 0.25, "use_parallel_residual": true, "tie_word_embeddings": false, "vocab_size": 50304,
      "max_position_embeddings": 2048, "torch_dtype": "float16", "hidden_size": 768, "num_hidden_layers": 12,
      "num_attention_heads": 12, "intermediate_size": 3072})"},
    {"phi-2", "microsoft/phi-2, its card (2.7B); 2,779,683,840 by the published sizes",
     2'779'683'840, R"({"architectures": ["PhiForCausalLM"], "model_type": "phi", "hidden_act": "gelu_new",
      "bos_token_id": 50256, "eos_token_id": 50256, "layer_norm_eps": 1e-05, "rope_theta": 10000.0,
      "rope_scaling": null, "partial_rotary_factor": 0.4, "qk_layernorm": false, "resid_pdrop": 0.1,
      "embd_pdrop": 0.0, "attention_dropout": 0.0, "tie_word_embeddings": false, "vocab_size": 51200,
      "max_position_embeddings": 2048, "torch_dtype": "float16", "hidden_size": 2560, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 10240})"},
    {"phi-3-mini", "microsoft/Phi-3-mini-4k-instruct; Abdin et al. 2024 (3.8B); 3,821,079,552 on its card",
     3'821'079'552, R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_act": "silu",
      "attention_bias": false, "bos_token_id": 1, "eos_token_id": 32000, "pad_token_id": 32000,
      "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "rope_scaling": null, "sliding_window": 2047,
      "original_max_position_embeddings": 4096, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
      "tie_word_embeddings": false, "vocab_size": 32064, "max_position_embeddings": 4096,
      "torch_dtype": "bfloat16", "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 32, "intermediate_size": 8192})"},
    {"olmo-2-7b", "allenai/OLMo-2-1124-7B; OLMo Team 2024, table 1 (7B); 7,298,617,344 on its card",
     7'298'617'344, R"({"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "hidden_act": "silu",
      "attention_bias": false, "eos_token_id": 100257, "pad_token_id": 100277, "rms_norm_eps": 1e-06,
      "rope_theta": 500000, "rope_scaling": null, "tie_word_embeddings": false, "vocab_size": 100352,
      "max_position_embeddings": 4096, "torch_dtype": "float32", "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
      "intermediate_size": 11008})"},
    {"opt-125m", "facebook/opt-125m; Zhang et al. 2022, table 1 (125M); 125,239,296 by the published sizes",
     125'239'296, R"({"architectures": ["OPTForCausalLM"], "model_type": "opt", "activation_function": "relu",
      "do_layer_norm_before": true, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1, "vocab_size": 50272,
      "max_position_embeddings": 2048, "torch_dtype": "float16", "hidden_size": 768, "word_embed_proj_dim": 768,
      "num_hidden_layers": 12, "num_attention_heads": 12, "ffn_dim": 3072})"},
    {"opt-350m", "facebook/opt-350m; Zhang et al. 2022, table 1 (350M); 331,196,416 by the published sizes",
     331'196'416, R"({"do_layer_norm_before": false, "hidden_size": 1024, "word_embed_proj_dim": 512,
      "num_hidden_layers": 24, "num_attention_heads": 16, "ffn_dim": 4096})", "opt-125m"},
    {"bloom-560m", "bigscience/bloom-560m; BigScience 2022, table 3 (559M); 559,214,592 by the published sizes",
     559'214'592, R"({"architectures": ["BloomForCausalLM"], "model_type": "bloom", "bos_token_id": 1,
      "eos_token_id": 2, "pad_token_id": 3, "layer_norm_epsilon": 1e-05, "seq_length": 2048, "vocab_size": 250880,
      "torch_dtype": "float16", "hidden_size": 1024, "n_layer": 24, "n_head": 16})"},
    {"mpt-7b", "mosaicml/mpt-7b, its card (6.7B); 6,649,286,656 by the published sizes",
     6'649'286'656, R"({"architectures": ["MptForCausalLM"], "model_type": "mpt", "layer_norm_epsilon": 1e-05,
      "attn_config": {"alibi": true, "alibi_bias_max": 8}, "eos_token_id": 0, "max_seq_len": 2048,
      "vocab_size": 50432, "torch_dtype": "bfloat16", "d_model": 4096, "n_layers": 32, "n_heads": 32})"},
    {"gpt-j-6b", "EleutherAI/gpt-j-6b; Wang & Komatsuzaki 2021; 6,050,882,784 on its card",
     6'050'882'784, R"({"architectures": ["GPTJForCausalLM"], "model_type": "gptj", "activation_function": "gelu_new",
      "bos_token_id": 50256, "eos_token_id": 50256, "layer_norm_epsilon": 1e-05, "rotary_dim": 64,
      "tie_word_embeddings": false, "vocab_size": 50400, "n_positions": 2048, "torch_dtype": "float16",
      "n_embd": 4096, "n_layer": 28, "n_head": 16})"},
    {"gpt-neo-125m", "EleutherAI/gpt-neo-125m, its card (125M); 125,198,592 by the published sizes",
     125'198'592, R"({"architectures": ["GPTNeoForCausalLM"], "model_type": "gpt_neo",
      "activation_function": "gelu_new", "attention_types": [[["global", "local"], 6]], "window_size": 256,
      "bos_token_id": 50256, "eos_token_id": 50256, "layer_norm_epsilon": 1e-05, "vocab_size": 50257,
      "max_position_embeddings": 2048, "torch_dtype": "float32", "hidden_size": 768, "num_layers": 12,
      "num_heads": 12})"},
    {"starcoder", "bigcode/starcoder; Li et al. 2023 (15.5B); 15,517,456,384 by the published sizes",
     15'517'456'384, R"({"architectures": ["GPTBigCodeForCausalLM"], "model_type": "gpt_bigcode",
      "activation_function": "gelu_pytorch_tanh", "multi_query": true, "bos_token_id": 0, "eos_token_id": 0,
      "layer_norm_epsilon": 1e-05, "vocab_size": 49152, "n_positions": 8192, "torch_dtype": "float16",
      "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576})"},
    {"olmo-3-7b", "allenai/Olmo-3-1025-7B; OLMo Team 2025 (7B); 7,298,011,136 by the published sizes",
     7'298'011'136, R"({"architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3", "hidden_act": "silu",
      "attention_bias": false, "eos_token_id": 100257, "pad_token_id": 100277, "rms_norm_eps": 1e-06,
      "rope_theta": 500000, "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0,
      "beta_slow": 1.0, "attention_factor": 1.2079441541679836, "original_max_position_embeddings": 8192},
      "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 100278,
      "max_position_embeddings": 65536, "torch_dtype": "bfloat16", "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
      "intermediate_size": 11008})"},
    {"olmoe-1b-7b", "allenai/OLMoE-1B-7B-0924; Muennighoff et al. 2024, 6.9B (1.3B active); 6,919,161,856 by the sizes",
     6'919'161'856, R"({"architectures": ["OlmoeForCausalLM"], "model_type": "olmoe", "hidden_act": "silu",
      "attention_bias": false, "clip_qkv": null, "eos_token_id": 50279, "pad_token_id": 1, "rms_norm_eps": 1e-05,
      "rope_theta": 10000.0, "rope_scaling": null, "tie_word_embeddings": false, "vocab_size": 50304,
      "max_position_embeddings": 4096, "torch_dtype": "bfloat16", "num_experts": 64, "num_experts_per_tok": 8,
      "norm_topk_prob": false, "output_router_logits": false, "router_aux_loss_coef": 0.01, "hidden_size": 2048,
      "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16,
      "intermediate_size": 1024})"},
    {"minimax-m2", "MiniMaxAI/MiniMax-M2, its card (230B); 228,689,764,864 by the published sizes",
     228'689'764'864, R"({"architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2",
      "hidden_act": "silu", "bos_token_id": 200019, "eos_token_id": 200020, "rms_norm_eps": 1e-06,
      "rope_theta": 5000000, "rotary_dim": 64, "use_qk_norm": true, "qk_norm_type": "per_layer",
      "scoring_func": "sigmoid", "use_routing_bias": true, "tie_word_embeddings": false, "vocab_size": 200064,
      "max_position_embeddings": 196608, "torch_dtype": "bfloat16", "num_local_experts": 256,
      "num_experts_per_tok": 8, "hidden_size": 3072, "num_hidden_layers": 62, "num_attention_heads": 48,
      "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 1536})"},
    {"ernie-4.5-0.3b", "baidu/ERNIE-4.5-0.3B-PT, its card (0.36B); 360,748,032 by the published sizes",
     360'748'032, R"({"architectures": ["Ernie4_5ForCausalLM"], "model_type": "ernie4_5", "hidden_act": "silu",
      "use_bias": false, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "rms_norm_eps": 1e-05,
      "rope_theta": 500000, "tie_word_embeddings": true, "vocab_size": 103424,
      "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "hidden_size": 1024,
      "num_hidden_layers": 18, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128,
      "intermediate_size": 3072})"},
    {"helium-1-2b", "kyutai/helium-1-preview-2b, its card (2B); 2,172,643,840 by the published sizes",
     2'172'643'840, R"({"architectures": ["HeliumForCausalLM"], "model_type": "helium", "hidden_act": "silu",
      "attention_bias": false, "mlp_bias": false, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3,
      "rms_norm_eps": 1e-08, "rope_theta": 100000.0, "tie_word_embeddings": false, "vocab_size": 48000,
      "max_position_embeddings": 4096, "torch_dtype": "bfloat16", "hidden_size": 2560,
      "num_hidden_layers": 24, "num_attention_heads": 20, "num_key_value_heads": 20, "head_dim": 128,
      "intermediate_size": 7040})"},
    {"nemotron-mini-4b", "nvidia/Nemotron-Mini-4B-Instruct, its card (4B); 4,190,509,056 by the published sizes",
     4'190'509'056, R"({"architectures": ["NemotronForCausalLM"], "model_type": "nemotron", "hidden_act": "relu2",
      "attention_bias": false, "mlp_bias": false, "bos_token_id": 2, "eos_token_id": 3, "norm_eps": 1e-05,
      "rope_theta": 10000, "partial_rotary_factor": 0.5, "tie_word_embeddings": false, "vocab_size": 256000,
      "max_position_embeddings": 4096, "torch_dtype": "bfloat16", "hidden_size": 3072,
      "num_hidden_layers": 32, "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128,
      "intermediate_size": 9216})"},
    {"stablelm-2-1.6b", "stabilityai/stablelm-2-1_6b; Bellagente et al. 2024 (1.6B); 1,644,515,328 by the published sizes",
     1'644'515'328, R"({"architectures": ["StableLmForCausalLM"], "model_type": "stablelm", "hidden_act": "silu",
      "use_qkv_bias": true, "bos_token_id": 100257, "eos_token_id": 100257, "layer_norm_eps": 1e-05,
      "rope_theta": 10000, "partial_rotary_factor": 0.25, "tie_word_embeddings": false, "vocab_size": 100352,
      "max_position_embeddings": 4096, "torch_dtype": "float16", "hidden_size": 2048,
      "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 32,
      "intermediate_size": 5632})"},
    {"exaone-4-1.2b", "LGAI-EXAONE/EXAONE-4.0-1.2B, its card (1.2B); 1,279,391,488 by the published sizes",
     1'279'391'488, R"({"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4", "hidden_act": "silu",
      "bos_token_id": 1, "eos_token_id": 361, "pad_token_id": 0, "rms_norm_eps": 1e-05, "rope_theta": 1000000,
      "rope_scaling": {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}, "sliding_window": null, "tie_word_embeddings": true,
      "vocab_size": 102400, "max_position_embeddings": 65536, "torch_dtype": "bfloat16", "hidden_size": 2048,
      "num_hidden_layers": 30, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
      "intermediate_size": 4096, "layer_types": [
      "full_attention", "full_attention", "full_attention", "full_attention", "full_attention",
      "full_attention", "full_attention", "full_attention", "full_attention", "full_attention",
      "full_attention", "full_attention", "full_attention", "full_attention", "full_attention",
      "full_attention", "full_attention", "full_attention", "full_attention", "full_attention",
      "full_attention", "full_attention", "full_attention", "full_attention", "full_attention",
      "full_attention", "full_attention", "full_attention", "full_attention", "full_attention"]})"},
    {"command-r-plus", "CohereForAI/c4ai-command-r-plus, its card (104B); 103,810,674,688 by the published sizes",
     103'810'674'688, R"({"architectures": ["CohereForCausalLM"], "model_type": "cohere", "hidden_act": "silu",
      "attention_bias": false, "bos_token_id": 5, "eos_token_id": 255001, "pad_token_id": 0,
      "layer_norm_eps": 1e-05, "logit_scale": 0.8333333333333334, "rope_theta": 75000000.0, "use_qk_norm": true,
      "vocab_size": 256000, "max_position_embeddings": 131072, "torch_dtype": "float16", "hidden_size": 12288,
      "num_hidden_layers": 64, "num_attention_heads": 96, "num_key_value_heads": 8,
      "intermediate_size": 33792})"},
    {"command-r7b", "CohereForAI/c4ai-command-r7b-12-2024, its card (8B); 8,028,033,024 by the published sizes",
     8'028'033'024, R"({"architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2", "hidden_act": "silu",
      "attention_bias": false, "bos_token_id": 5, "eos_token_id": 255001, "pad_token_id": 0,
      "layer_norm_eps": 1e-05, "logit_scale": 0.25, "rope_theta": 50000, "rope_scaling": null,
      "sliding_window": 4096, "sliding_window_pattern": 4, "vocab_size": 256000,
      "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336})"},
    {"smollm3-3b", "HuggingFaceTB/SmolLM3-3B-Base, its card (3B); 3,075,098,624 by the published sizes",
     3'075'098'624, R"({"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "hidden_act": "silu",
      "attention_bias": false, "mlp_bias": false, "bos_token_id": 128000, "eos_token_id": 128001,
      "pad_token_id": 128004, "rms_norm_eps": 1e-06, "rope_theta": 5000000.0, "rope_scaling": null,
      "no_rope_layer_interval": 4, "use_sliding_window": false, "sliding_window": null,
      "tie_word_embeddings": true, "vocab_size": 128256, "max_position_embeddings": 65536,
      "torch_dtype": "bfloat16", "hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16,
      "num_key_value_heads": 4, "intermediate_size": 11008})"},
    {"bert-base", "google-bert/bert-base-uncased; Devlin et al. 2018, section 3 (110M with the layers of pre-training)",
     109'514'298, R"({"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_act": "gelu",
      "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 0,
      "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
      "intermediate_size": 3072})"},
    {"bert-base-pretraining", "google-bert/bert-base-uncased with both heads; Devlin et al. 2018, section 3 (110M)",
     110'106'428, R"({"architectures": ["BertForPreTraining"]})", "bert-base"},
    {"roberta-base", "FacebookAI/roberta-base; Liu et al. 2019, section 5 (125M)",
     124'697'433, R"({"architectures": ["RobertaForMaskedLM"], "model_type": "roberta", "layer_norm_eps": 1e-05,
      "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0,
      "eos_token_id": 2, "vocab_size": 50265})", "bert-base"},
    {"xlm-roberta-base", "FacebookAI/xlm-roberta-base; Conneau et al. 2019, section 3 (270M)",
     278'295'186, R"({"architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "vocab_size": 250002})",
     "roberta-base"},
    {"distilbert-base", "distilbert/distilbert-base-uncased; Sanh et al. 2019, section 3 (66M)",
     66'985'530, R"({"architectures": ["DistilBertForMaskedLM"], "model_type": "distilbert", "activation": "gelu",
      "max_position_embeddings": 512, "pad_token_id": 0, "vocab_size": 30522, "dim": 768, "n_layers": 6,
      "n_heads": 12, "hidden_dim": 3072})"},
    {"transformer-base", "the base model of Vaswani et al. 2017, table 3 (65M), with 37,000 shared tokens",
     63'082'496, R"({"model_type": "vitrine", "d_model": 512, "n_layers": 6, "n_heads": 8, "d_ff": 2048,
      "vocab_size": 37000, "max_seq_len": 1024, "activation": "relu", "gated": false, "positions": "sinusoidal",
      "norm": "layer", "norm_bias": true, "norm_place": "after_residual", "qkv_bias": true, "out_bias": true,
      "ffn_bias": true, "embedding_scale": 22.627416997969522, "tied": true, "encoder": {},
      "pad_token_id": 0, "decoder_start_token_id": 1, "bos_token_id": 1, "eos_token_id": 2})"},
    {"t5-small", "google-t5/t5-small; Raffel et al. 2019, section 3.7 (60M)",
     60'506'624, R"({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "feed_forward_proj": "relu",
      "layer_norm_epsilon": 1e-06, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
      "is_encoder_decoder": true, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
      "vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8})"},
    {"flan-t5-base", "google/flan-t5-base; Chung et al. 2022, table 2 (250M)",
     247'577'856, R"({"feed_forward_proj": "gated-gelu", "tie_word_embeddings": false, "d_model": 768, "num_layers": 12,
      "num_heads": 12})", "t5-small"},
    {"mt5-small", "google/mt5-small; Xue et al. 2020, section 3.2 (300M)",
     300'176'768, R"({"architectures": ["MT5ForConditionalGeneration"], "model_type": "mt5", "vocab_size": 250112,
      "d_model": 512, "d_ff": 1024, "num_layers": 8, "num_heads": 6})", "flan-t5-base"},
    {"bart-base", "facebook/bart-base; Lewis et al. 2019, section 4 (139M on its card)",
     139'420'416, R"({"architectures": ["BartForConditionalGeneration"], "model_type": "bart",
      "activation_function": "gelu", "scale_embedding": false, "is_encoder_decoder": true, "bos_token_id": 0,
      "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2,
      "max_position_embeddings": 1024, "vocab_size": 50265, "d_model": 768, "encoder_layers": 6, "decoder_layers": 6,
      "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072,
      "decoder_ffn_dim": 3072})"},
    {"mbart-large-50", "facebook/mbart-large-50-many-to-many-mmt; Tang et al. 2020, section 4 (610,879,488 from the sizes)",
     610'879'488, R"({"architectures": ["MBartForConditionalGeneration"], "model_type": "mbart",
      "activation_function": "relu", "scale_embedding": true, "vocab_size": 250054, "d_model": 1024,
      "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 16, "decoder_attention_heads": 16,
      "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096})", "bart-base"},
    {"opus-mt-en-de", "Helsinki-NLP/opus-mt-en-de; Tiedemann & Thottingal 2020 (73,886,208 from the sizes)",
     73'886'208, R"({"architectures": ["MarianMTModel"], "model_type": "marian", "activation_function": "swish",
      "scale_embedding": true, "is_encoder_decoder": true, "pad_token_id": 58100, "eos_token_id": 0,
      "decoder_start_token_id": 58100, "forced_eos_token_id": 0, "max_position_embeddings": 512, "vocab_size": 58101,
      "decoder_vocab_size": 58101, "d_model": 512, "encoder_layers": 6, "decoder_layers": 6,
      "encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 2048,
      "decoder_ffn_dim": 2048})"},
    {"pegasus-large", "google/pegasus-large; Zhang et al. 2019, section 4 (568M)",
     568'699'904, R"({"architectures": ["PegasusForConditionalGeneration"], "model_type": "pegasus",
      "activation_function": "relu", "scale_embedding": true, "bos_token_id": null, "pad_token_id": 0, "eos_token_id": 1,
      "decoder_start_token_id": 0, "forced_eos_token_id": 1, "vocab_size": 96103, "encoder_layers": 16,
      "decoder_layers": 16})", "mbart-large-50"},
    {"m2m100-418m", "facebook/m2m100_418M; Fan et al. 2020 (483,905,536 from the sizes)",
     483'905'536, R"({"architectures": ["M2M100ForConditionalGeneration"], "model_type": "m2m_100",
      "activation_function": "relu", "vocab_size": 128112, "pad_token_id": 1, "eos_token_id": 2,
      "decoder_start_token_id": 2, "forced_eos_token_id": null})", "mbart-large-50"},
    {"nllb-200-600m", "facebook/nllb-200-distilled-600M; NLLB Team 2022, section 6 (600M)",
     615'073'792, R"({"vocab_size": 256206})", "m2m100-418m"},
    {"gpt2", "openai-community/gpt2; Radford et al. 2019, table 2 (117M there; 124M as released)",
     124'439'808, R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
      "layer_norm_epsilon": 1e-05, "n_positions": 1024, "vocab_size": 50257, "bos_token_id": 50256,
      "eos_token_id": 50256, "torch_dtype": "float32", "n_embd": 768, "n_layer": 12, "n_head": 12})"},
    {"gpt2-medium", "openai-community/gpt2-medium; Radford et al. 2019, table 2 (345M there; 355M as released)",
     354'823'168, R"({"n_embd": 1024, "n_layer": 24, "n_head": 16})", "gpt2"},
    {"gpt2-xl", "openai-community/gpt2-xl; Radford et al. 2019, table 2 (1542M there; 1558M as released)",
     1'557'611'200, R"({"n_embd": 1600, "n_layer": 48, "n_head": 25})", "gpt2"},
    {"gpt3-175b", "Brown et al. 2020, table 2.1 (175.0B); every layer dense here, every second one banded there",
     174'604'259'328, R"({"n_positions": 2048, "n_embd": 12288, "n_layer": 96, "n_head": 96})", "gpt2"},
};
// clang-format on

}  // namespace

std::span<const Preset> all_presets() { return kPresets; }

Json preset_or_config(const std::string& name_or_path) {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    if (preset.name == name_or_path) {
      Json config = preset.like.empty() ? Json::object() : preset_or_config(std::string(preset.like));
      config.update(parse_json(preset.config, preset.name));
      return config;
    }
    names.emplace_back(preset.name);
  }
  std::error_code error;
  if (!std::filesystem::exists(name_or_path, error) && !error) {
    std::string hint = did_you_mean(name_or_path, names);
    if (hint.empty()) hint = did_you_mean_file(name_or_path);
    throw BadInput(name_or_path, "expected a preset or a config.json{}", hint);
  }
  const bool is_folder = std::filesystem::is_directory(name_or_path, error);
  return read_text_config(is_folder ? name_or_path + "/config.json" : name_or_path);
}

std::int64_t size_by_rule(std::string_view rule, std::int64_t d_model) {
  if (d_model < 1 || d_model > kMaxSize) throw BadInput("d_model", "expected 1 to {}, got {}", kMaxSize, d_model);
  std::string rest(rule);
  std::erase(rest, ' ');
  bool fits = true;
  const auto take = [&](std::string_view word) {
    const bool found = rest.starts_with(word);
    if (found) rest.erase(0, word.size());
    return found;
  };
  const auto number = [&] {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    fits = fits && error == std::errc() && value >= 1 && value <= kMaxSize;
    rest.erase(0, static_cast<std::size_t>(end - rest.data()));
    return value;
  };
  const std::int64_t above = number();
  const std::int64_t below = take("/") ? number() : 1;
  take("*");
  fits = take("d") && fits;
  const bool rounds = take(",roundupto");
  const std::int64_t step = rounds ? number() : 1;
  if (!fits || !rest.empty()) {
    throw BadInput("d_ff", "expected a number, or a rule as in \"8/3 d, round up to 64\", got \"{}\"", rule);
  }
  const std::int64_t size = above * d_model;  // below 2^62
  if (!rounds && size % below != 0) {
    throw BadInput("d_ff", "\"{}\" of d_model {} is not a whole number: add \", round up to 64\"", rule, d_model);
  }
  __extension__ using Wide = __int128;
  const Wide unit = static_cast<Wide>(below) * step;
  const Wide rounded = (static_cast<Wide>(size) + unit - 1) / unit * step;
  if (rounded > kMaxSize) throw BadInput("d_ff", "\"{}\" of d_model {} exceeds {}", rule, d_model, kMaxSize);
  return static_cast<std::int64_t>(rounded);
}

void set_config_keys(Json& config, const std::vector<std::string>& assignments, const std::string& where) {
  Json values = Json::object();
  for (const std::string& text : assignments) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw BadInput("--set", "expected KEY=VALUE as in d_model=64, got \"{}\"", text);
    }
    const std::string value = text.substr(equals + 1);
    const Json parsed = Json::parse(value, nullptr, false);
    values[text.substr(0, equals)] = parsed.is_discarded() ? Json(value) : parsed;
  }
  set_config_values(config, values, where);
}

void set_config_values(Json& config, const Json& values, const std::string& where) {
  const Family& family = family_of(config, where);
  const std::string d_ff = family.key_of("d_ff"), d_model = family.key_of("d_model");
  for (const auto& [key, value] : values.items()) {
    const std::string theirs = family.key_of(key);
    if (theirs != key && values.contains(theirs)) throw BadInput(where, "{} and {} are the same key", key, theirs);
    config[theirs] = value;
  }
  if (!config.contains(d_ff) || !config[d_ff].is_string()) return;
  if (!config.contains(d_model) || !config[d_model].is_number_integer()) {
    throw BadInput(where, "{} is a rule, so {} must be a number", d_ff, d_model);
  }
  config[d_ff] = size_by_rule(config[d_ff].get<std::string>(), config[d_model].get<std::int64_t>());
}

}  // namespace vitrine
