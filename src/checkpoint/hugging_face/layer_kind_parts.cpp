// Reads what differs between layers with a window and full layers, and layers that read the keys and values of others.
#include <cmath>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

void read_heads_by_kind(ConfigReader& c, ModelConfig& model, const std::vector<bool>& sliding) {
  const bool shared_projection = c.flag_or("attention_k_eq_v", false);
  const std::int64_t head_dim = c.size_or("global_head_dim", 512);
  const auto n_kv_heads = c.optional_size("num_global_key_value_heads");
  std::optional<ConfigReader> listed = c.object("per_layer_config");
  for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
    AttentionConfig& a = *find<AttentionConfig>(model.blocks[layer]);
    a.values_are_keys = shared_projection && !sliding[layer];
    if (!sliding[layer] && !listed) {
      a.head_dim = head_dim;
      if (shared_projection) a.n_kv_heads = n_kv_heads.value_or(a.n_kv_heads);
    }
    if (std::optional<ConfigReader> own = listed ? listed->object(std::to_string(layer)) : std::nullopt) {
      a.head_dim = own->size_or("head_dim", a.head_dim);
      a.n_kv_heads = own->size_or("num_key_value_heads", a.n_kv_heads);
      own->finish();
    }
    if (a.head_dim <= kMaxHeadDim) continue;
    throw BadCheckpoint(c.where(), "head_dim of layer {}: expected at most {}, got {}", layer, kMaxHeadDim, a.head_dim);
  }
  if (listed) listed->finish();
}

void read_ropes_by_kind(ConfigReader& c, ModelConfig& model, const std::vector<bool>& sliding) {
  for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
    AttentionConfig& a = *find<AttentionConfig>(model.blocks[layer]);
    a.rope = c.has("rope_parameters") || sliding[layer]
                 ? read_rope(c, a.head_dim, model.max_seq_len,
                             {.theta = sliding[layer] ? 1e4 : 1e6,
                              .layer_type = sliding[layer] ? "sliding_attention" : "full_attention"})
                 : make_rope(1e6, a.head_dim, RopeConfig::Layout::halves, ProportionalScaling{1, a.head_dim / 8});
  }
}

std::vector<bool> read_sliding_and_last_full(ConfigReader& c, ModelConfig& model, std::int64_t window,
                                             std::int64_t pattern) {
  std::vector<bool> sliding = read_sliding_layers(c, model.blocks.size(), pattern);
  sliding.back() = false;
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    if (sliding[layer]) find<AttentionConfig>(model.blocks[layer])->window = window;
  }
  return sliding;
}

std::size_t read_shared_keys(ConfigReader& c, StackConfig& model, const std::vector<bool>& sliding,
                             std::int64_t otherwise, std::string_view key) {
  const std::size_t n_layers = model.blocks.size();
  const double n_shared = c.number_or(key, static_cast<double>(otherwise));
  if (!(n_shared >= 0 && n_shared < static_cast<double>(n_layers) && n_shared == std::floor(n_shared))) {
    throw BadCheckpoint(c.where(), "{}: expected a number from 0 to {}, got {}", key, n_layers - 1, n_shared);
  }
  const std::size_t first = n_layers - static_cast<std::size_t>(n_shared);
  for (std::size_t layer = first; layer < n_layers; ++layer) {
    std::size_t from = first;
    while (from > 0 && sliding[from - 1] != sliding[layer]) --from;
    if (from == 0) {
      throw BadCheckpoint(c.where(), "{}: expected a layer of the kind of layer {} among the first {}", key, layer,
                          first);
    }
    find<AttentionConfig>(model.blocks[layer])->kv_layer = static_cast<std::int64_t>(from) - 1;
  }
  return first;
}

}  // namespace vitrine
