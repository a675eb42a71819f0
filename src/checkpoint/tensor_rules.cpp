#include "checkpoint/tensor_rules.h"

#include "checkpoint/names.h"

namespace vitrine {

void for_each_place(const TensorRule& rule, std::string_view prefix, const ModelConfig& config,
                    const std::function<void(const TensorPlace&)>& visit) {
  const bool by_layer = rule.stored.find("{l}") != std::string_view::npos;
  const bool by_expert = rule.stored.find("{e}") != std::string_view::npos;
  const bool stacks = !by_expert && !rule.ours.empty() && rule.ours.front().find("{e}") != std::string_view::npos;
  const auto n_layers = by_layer ? static_cast<std::int64_t>(config.blocks.size()) : 1;
  for (std::int64_t layer = 0; layer < n_layers; ++layer) {
    const BlockConfig& block = config.blocks[static_cast<std::size_t>(layer)];
    if (rule.applies != nullptr && !rule.applies(block)) continue;
    const auto* moe = std::get_if<MoeConfig>(&block.ffn);
    if ((by_expert || stacks) && moe == nullptr) continue;
    const std::int64_t n_experts = by_expert || stacks ? moe->n_experts : 1;
    const auto add_ours = [&](TensorPlace& place, std::int64_t expert) {
      for (const std::string_view ours : rule.ours) place.ours.push_back(with_expert(with_layer(ours, layer), expert));
    };
    const std::string stored = with_layer(with_prefix(rule.stored, prefix), layer);
    if (stacks) {
      TensorPlace place{&rule, stored, {}, layer, stacks};
      for (std::int64_t expert = 0; expert < n_experts; ++expert) add_ours(place, expert);
      visit(place);
      continue;
    }
    for (std::int64_t expert = 0; expert < n_experts; ++expert) {
      TensorPlace place{&rule, with_expert(stored, expert), {}, layer};
      add_ours(place, expert);
      visit(place);
    }
  }
}

PlaceShape shape_of(const TensorPlace& place, const ModelConfig& config, const std::vector<Shape>& parts) {
  PlaceShape shape;
  shape.is_vector = parts.front().rank() == 1;
  for (const Shape& part : parts) shape.rows += part[0];
  if (!shape.is_vector) shape.cols = parts.front()[1];
  const AttentionConfig& attention = config.blocks[static_cast<std::size_t>(place.layer)].attention;
  const bool has_weight_per_head = attention.qk_norm && attention.qk_norm->over == QkNormConfig::Over::head_own_weight;
  const bool is_qk_norm = place.rule->ours.front().find("_norm.") != std::string_view::npos;
  const auto n = static_cast<std::int64_t>(parts.size());
  if (is_qk_norm && has_weight_per_head) {
    shape.stored = {shape.rows / attention.head_dim, attention.head_dim};
  } else if (shape.is_vector) {
    shape.stored = {shape.rows};
  } else if (place.rule->transposed) {
    shape.stored = {shape.cols, shape.rows};
  } else if (place.stacks_experts) {
    shape.stored = {n, shape.rows / n, shape.cols};
  } else {
    shape.stored = {shape.rows, shape.cols};
  }
  return shape;
}

std::vector<RowRun> row_runs(const TensorPlace& place, const ModelConfig& config,
                             const std::vector<std::int64_t>& part_rows) {
  const std::int64_t n_groups =
      place.rule->rows == Rows::stacked ? 1 : config.blocks[static_cast<std::size_t>(place.layer)].attention.n_kv_heads;
  std::vector<RowRun> runs;
  for (std::int64_t group = 0; group < n_groups; ++group) {
    for (std::size_t part = 0; part < part_rows.size(); ++part) {
      const std::int64_t count = part_rows[part] / n_groups;
      runs.push_back({part, group * count, count});
    }
  }
  return runs;
}

}  // namespace vitrine
