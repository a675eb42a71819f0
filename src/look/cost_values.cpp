#include "inspect/account.h"
#include "inspect/parameter_table.h"
#include "look/figures.h"

namespace vitrine {

void add_cost_values(const GenerateContext& context, const Recording& r, double bytes_per_weight, LookData& data) {
  Workload w;
  w.phase = Phase::forward;
  w.length = r.n_tokens();
  w.bytes_per_weight = bytes_per_weight;
  w.kv = context.kv_dtype;
  const Account a = account(*r.facts.config, w);
  std::vector<double> flops, bytes, intensity, times;
  std::vector<std::string> names;
  const auto add = [&](const std::vector<Op>& ops, const std::string& prefix, std::int64_t layers) {
    for (const Op& op : ops) {
      names.push_back(prefix + op.name);
      flops.push_back(op.cost.flops);
      bytes.push_back(op.cost.bytes());
      intensity.push_back(op.cost.intensity());
      times.push_back(static_cast<double>(layers));
    }
  };
  add(a.first, "", 1);
  for (const Account::Layers& layers : a.layers) {
    add(layers.ops, in_block(layers.group.first(), ""), layers.group.count());
  }
  add(a.last, "", 1);
  const auto n = static_cast<std::int64_t>(names.size());
  for (const auto& [name, values] : {std::pair{"account.flops", &flops}, std::pair{"account.bytes", &bytes},
                                     std::pair{"account.intensity", &intensity}, std::pair{"account.layers", &times}}) {
    data.add("costs", name, {n}, *values);
    data.label(names);
  }
  std::vector<double> counts;
  std::vector<std::string> params;
  for (const ParameterRow& row : parameter_table(*r.facts.config)) {
    params.push_back(row.name + " " + to_string(row.shape) + (row.in_block ? " × " + std::to_string(row.layers) : ""));
    counts.push_back(static_cast<double>(row.total()));
  }
  data.add("costs", "parameters.count", {static_cast<std::int64_t>(counts.size())}, counts);
  data.label(params);
}

}  // namespace vitrine
