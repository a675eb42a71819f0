#include "inspect/account.h"
#include "inspect/parameter_table.h"
#include "inspect/timing.h"
#include "look/figures.h"

namespace vitrine {

void add_cost_values(const LookSubject& subject, const Recording& r, LookData& data) {
  const GenerateContext& context = subject.context;
  Workload w;
  w.phase = Phase::forward;
  w.length = r.n_tokens();
  w.bytes_per_weight = subject.bytes_per_weight;
  w.kv = context.kv_types;
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
  const std::vector<double> seconds = op_times(context, Tokens{std::span(r.facts.ids)}, a);
  const auto add_array = [&](const char* name, const std::vector<double>& values) {
    data.add(kCostsBlock, name, values);
    data.label(names);
  };
  add_array("account.flops", flops);
  add_array("account.bytes", bytes);
  add_array("account.intensity", intensity);
  add_array("account.layers", times);
  add_array("time.seconds", seconds);
  if (subject.ceilings) {
    std::vector<double> speeds;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      speeds.push_back(flops[i] > 0 && seconds[i] > 0 ? flops[i] / seconds[i] : kNoValue);
    }
    add_array("roofline.flops_per_s", speeds);
    const std::vector<double> limits = {subject.ceilings->flops_per_s, subject.ceilings->read_bytes_per_s};
    data.add(kCostsBlock, "ceilings.per_s", limits);
    data.label({"FLOPs", "bytes read"});
  }
  add_parameter_values(*r.facts.config, data);
}

void add_parameter_values(const ModelConfig& config, LookData& data) {
  std::vector<double> counts;
  std::vector<std::string> params;
  for (const ParameterRow& row : parameter_table(config)) {
    params.push_back(row.name + " " + to_string(row.shape) + (row.in_block ? " × " + std::to_string(row.layers) : ""));
    counts.push_back(static_cast<double>(row.total()));
  }
  data.add(kCostsBlock, "parameters.count", counts);
  data.label(params);
}

}  // namespace vitrine
