#include "checkpoint/tensor_rules.h"

#include "checkpoint/names.h"

namespace vitrine {

void for_each_place(const TensorRule& rule, std::string_view prefix, const ModelConfig& config,
                    const std::function<void(const TensorPlace&)>& visit) {
  const bool by_layer = rule.stored.find("{l}") != std::string_view::npos;
  const bool by_expert = rule.stored.find("{e}") != std::string_view::npos;
  const auto n_layers = by_layer ? static_cast<std::int64_t>(config.blocks.size()) : 1;
  for (std::int64_t layer = 0; layer < n_layers; ++layer) {
    const BlockConfig& block = config.blocks[static_cast<std::size_t>(layer)];
    if (rule.applies != nullptr && !rule.applies(block)) continue;
    std::int64_t n_experts = 1;
    if (by_expert) {
      const auto* moe = std::get_if<MoeConfig>(&block.ffn);
      n_experts = moe != nullptr ? moe->n_experts : 0;
    }
    for (std::int64_t expert = 0; expert < n_experts; ++expert) {
      TensorPlace place{&rule, with_expert(with_layer(with_prefix(rule.stored, prefix), layer), expert), {}, layer};
      for (const std::string_view ours : rule.ours) place.ours.push_back(with_expert(with_layer(ours, layer), expert));
      visit(place);
    }
  }
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
