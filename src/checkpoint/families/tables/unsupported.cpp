// Types of language models that no family reads: what vitrine lacks for each, and the family that differs least.
// Sources: transformers, models/*; the models' reports.
#include <algorithm>
#include <iterator>

#include "checkpoint/family.h"

namespace vitrine {
namespace {

constexpr UnsupportedType kTypes[] = {
    // sparse attention
    {"axk2", "sparse attention by an indexer", "deepseek_v3"},
    {"deepseek_v32", "sparse attention by an indexer", "deepseek_v3"},
    {"deepseek_v4", "attention over compressed keys, and several residual streams", "deepseek_v3"},
    {"doge", "attention with a dynamic mask", "llama"},
    {"dots3_note", "sparse attention by an indexer", "deepseek_v3"},
    {"dots3_note_text", "sparse attention by an indexer", "deepseek_v3"},
    {"glm5_next", "sparse attention by an indexer, linear attention, and several residual streams", "deepseek_v3"},
    {"glm5_next_text", "sparse attention by an indexer, linear attention, and several residual streams", "deepseek_v3"},
    {"glm_moe_dsa", "sparse attention by an indexer", "deepseek_v3"},
    {"hy_v4", "sparse attention by an indexer, and several residual streams", "deepseek_v3"},
    {"minimax_m3_vl", "sparse attention by an indexer", "minimax_m2"},
    {"minimax_m3_vl_text", "sparse attention by an indexer", "minimax_m2"},
    {"qwen4_exp", "sparse attention by an indexer, and embeddings of n-grams", "qwen3_moe"},
    {"qwen4_exp_text", "sparse attention by an indexer, and embeddings of n-grams", "qwen3_moe"},
    // other attention
    {"diffllama", "the difference of two attention patterns", "llama"},
    {"inkling2", "relative positions as biases of the scores, and short convolutions", "qwen3_moe"},
    {"inkling2_text", "relative positions as biases of the scores, and short convolutions", "qwen3_moe"},
    {"inkling_mm_model", "relative positions as biases of the scores, and short convolutions", "qwen3_moe"},
    {"inkling_text", "relative positions as biases of the scores, and short convolutions", "qwen3_moe"},
    {"mllama", "cross-attention to images", "llama"},
    {"mllama_text_model", "cross-attention to images", "llama"},
    {"paligemma", "attention to later tokens within a prefix", "gemma"},
    {"zaya", "attention in a compressed and convolved space", "qwen3_moe"},
    // experts
    {"jetmoe", "experts of attention", "mixtral"},
    {"longcat_flash", "experts that compute nothing, and two attention sublayers a layer", "deepseek_v3"},
    {"phimoe", "a router that masks scores by their distance to the largest (SparseMixer)", "mixtral"},
    // layers with a state
    {"bailing_hybrid", "linear attention (lightning attention)", "kimi_linear"},
    {"lara_mini", "linear attention in a form of its own", "qwen3_next"},
    {"lfm3", "short convolutions of another form", "lfm2"},
    {"minimax", "linear attention (lightning attention)", "mixtral"},
    {"recurrent_gemma", "recurrent layers (RG-LRU)", "gemma"},
    {"rwkv", "linear attention with decay (RWKV)", "llama"},
    {"xlstm", "recurrent layers (xLSTM)", "llama"},
    {"zamba", "attention blocks that several layers share", "jamba"},
    {"zamba2", "attention blocks that several layers share", "bamba"},
    // the rest
    {"bitnet", "norms inside attention and MLP, and ternary weights", "llama"},
    {"blt", "patches of bytes in place of tokens", "llama"},
    {"hrm_text", "two stacks that are run several times", "llama"},
    {"phi4_multimodal", "adapters that are chosen by what the input holds", "phi3"},
    {"phi4mm", "adapters that are chosen by what the input holds", "phi3"},
};

}  // namespace

std::span<const UnsupportedType> unsupported_types() { return kTypes; }

const UnsupportedType* unsupported_type(std::string_view model_type) {
  const auto it = std::find_if(std::begin(kTypes), std::end(kTypes),
                               [&](const UnsupportedType& type) { return type.model_type == model_type; });
  return it != std::end(kTypes) ? it : nullptr;
}

}  // namespace vitrine
