#include "checkpoint/gguf/file_rows.h"

namespace vitrine {

HeadOrders head_orders(const DeltaNetConfig& net, std::string_view ours, std::int64_t n_rows) {
  const auto is = [&](std::string_view part) { return ours.find(part) != ours.npos; };
  if (net.n_heads == net.n_key_heads || !is(".linear_attn.") || is(".linear_attn.norm.")) return {};
  if (is(".wo.")) return {{}, {net.n_heads, net.n_key_heads, net.value_dim}};
  const std::int64_t first = is(".w_qkv.") || is(".conv.") ? 2 * net.keys() : 0;
  return {{net.n_heads, net.n_key_heads, (n_rows - first) / net.n_heads, first}, {}};
}

std::vector<FoldedRows> folded_rows(const GgufArchitecture& architecture, const ModelConfig& config, std::int64_t layer,
                                    std::string_view ours, std::int64_t n_rows) {
  if (!architecture.folds_factors) return {};
  const auto is = [&](std::string_view part) { return ours.find(part) != ours.npos; };
  const auto all = [&](float factor) { return std::vector<FoldedRows>{{n_rows, factor}}; };
  if (ours.starts_with("embed.")) return all(config.embedding.scale);
  if (ours.starts_with("unembed.")) return all(config.head.scale);
  if (!ours.starts_with("blocks.")) return {};
  const BlockConfig& block = config.blocks[static_cast<std::size_t>(layer)];
  const bool is_bias = ours.ends_with(".bias");
  const float of_input = is_bias ? 1 : block.sublayers[0].input_scale;
  if (is(".attn.wq.") || is(".attn.wv.")) return all(of_input);
  if (is(".attn.wk.")) return all(find<AttentionConfig>(block)->key_scale * of_input);
  if (is(".attn.wo.")) return all(block.sublayers[0].scale);
  if (is(".mixer.w_out.")) return all(block.sublayers[1].scale);
  if (is(".mlp.w_gate.")) return all(find<DenseConfig>(block)->gate_scale);
  if (is(".mlp.w_down.")) return all(find<DenseConfig>(block)->out_scale);
  if (!is(".mixer.w_in.")) return {};
  const Mamba2Config& c = *find<Mamba2Config>(block);
  const Mamba2Factors& f = c.factors;
  const std::int64_t groups = c.n_groups * c.d_state;
  std::vector<FoldedRows> parts = {{c.inner(), f.z}, {c.inner(), f.x}, {groups, f.b}, {groups, f.c}, {c.n_heads, f.dt}};
  for (FoldedRows& part : parts) part.factor *= is_bias ? 1 : f.input;
  return parts;
}

std::vector<RowsApart> rows_apart(const DeltaNetConfig& c) {
  const std::int64_t values = c.values() / c.n_key_heads, step = 2 * (c.key_dim + values);
  const auto of_keys = [&](std::vector<RowRun>& runs, std::int64_t first, std::int64_t count) {
    for (std::int64_t key = 0; key < c.n_key_heads; ++key) runs.push_back({0, key * step + first, count});
  };
  RowsApart joined{".attn_qkv.weight", {}}, gate{".attn_gate.weight", {}};
  of_keys(joined.runs, 0, c.key_dim);
  of_keys(joined.runs, c.key_dim, c.key_dim);
  of_keys(joined.runs, 2 * c.key_dim, values);
  of_keys(gate.runs, 2 * c.key_dim + values, values);
  return {joined, gate};
}

}  // namespace vitrine
