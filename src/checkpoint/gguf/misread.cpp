#include "checkpoint/gguf/misread.h"

namespace vitrine {
namespace {

constexpr std::string_view kHeadWidth = "heads whose elements are not d_model together";

/// Biases for which the architecture's graph has no addition.
std::string_view unread_biases(const ModelConfig& config, bool reads_qkv) {
  for (const BlockConfig& block : config.blocks) {
    const AttentionConfig& attention = *find<AttentionConfig>(block);
    if (attention.qkv_bias && !reads_qkv) return "the biases of q, k and v";
    if (attention.out_bias) return "the bias of attention's output";
    const DenseConfig* const ffn = find<DenseConfig>(block);
    if (ffn != nullptr && ffn->bias) return "the biases of the feed-forward";
  }
  return {};
}
}  // namespace

std::string_view any_bias(const ModelConfig& config) { return unread_biases(config, false); }
std::string_view all_biases_but_of_qkv(const ModelConfig& config) { return unread_biases(config, true); }

std::string_view heads_of_other_width(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    const AttentionConfig& attention = *find<AttentionConfig>(block);
    if (attention.n_heads * attention.head_dim != config.d_model) return kHeadWidth;
  }
  return {};
}

std::string_view olmoe_heads(const ModelConfig& config) {
  if (const std::string_view width = heads_of_other_width(config); !width.empty()) return width;
  for (const BlockConfig& block : config.blocks) {
    const AttentionConfig& attention = *find<AttentionConfig>(block);
    if (attention.n_kv_heads != attention.n_heads) return "fewer K/V heads than heads";
  }
  return any_bias(config);
}

std::string_view exaone4_windows(const ModelConfig& config) {
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    const bool assumed = config.blocks.size() == 64 && (layer + 1) % 4 != 0;
    if (attention_of(config, layer)->window.has_value() != assumed) return "the layers that have a window";
  }
  return {};
}

std::string_view command_r_norms(const ModelConfig& config) {
  const bool assumed = config.blocks.size() >= 64;
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    if (attention_of(config, layer)->qk_norm.has_value() != assumed) return "the norms of q and k";
  }
  return {};
}

}  // namespace vitrine
