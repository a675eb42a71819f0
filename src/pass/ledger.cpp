#include "pass/ledger.h"

namespace vitrine {
namespace {

/// `attn.wq` of `blocks.3.attn.wq.weight`; `pos_embed` of `encoder.pos_embed`.
std::string_view without_layer(std::string_view name) {
  for (const std::string_view stack : {"blocks.", "encoder.", "decoder."}) {
    if (!name.starts_with(stack)) continue;
    name.remove_prefix(stack.size());
    if (!name.empty() && name[0] >= '0' && name[0] <= '9') name.remove_prefix(name.find('.') + 1);
    break;
  }
  return name;
}

std::string_view without_suffix(std::string_view name, std::string_view suffix) {
  if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return name;
}

}  // namespace

OpCost& OpCost::operator+=(const OpCost& o) {
  flops += o.flops;
  visible_flops += o.visible_flops;
  weights += o.weights;
  activations += o.activations;
  kv_bytes += o.kv_bytes;
  maps += o.maps;
  return *this;
}

void Ledger::enter(const OpCall& call, std::span<const Tensor> inputs, const Tensor& output) {
  LedgerOp entry{
      .call = call, .layer = layer_, .stack = stack_, .inputs = {inputs.begin(), inputs.end()}, .output = output};
  if (output.data != nullptr) entry.cost.activations = static_cast<double>(output.count());
  for (const Tensor& input : inputs) entry.cost.activations += static_cast<double>(input.count());
  ops_.push_back(std::move(entry));
}

void Ledger::reads(const Param& param) {
  LedgerOp& op = ops_.back();
  op.cost.weights += static_cast<double>(param.shape.count());
  if (op.weight != nullptr) return;
  op.weight = &param;
  op.name = without_suffix(without_layer(param.name), ".weight");
  if (receive_) receive_(op);
}

void Ledger::multiplies(const Param& weight, std::int64_t rows, std::int64_t columns) {
  const double flops = 2 * static_cast<double>(rows) * static_cast<double>(columns * weight.view.rows);
  reads(weight);
  charge({.flops = flops, .visible_flops = flops});
}

void Ledger::multiplies_part(const Param& weight, std::int64_t first_row, std::int64_t rows, std::int64_t elements) {
  LedgerOp& op = ops_.back();
  op.part_of = &weight;
  op.first_row = first_row;
  const double flops = 2 * static_cast<double>(rows) * static_cast<double>(elements);
  charge({.flops = flops, .visible_flops = flops, .weights = static_cast<double>(elements)});
  if (receive_) receive_(op);
}

void Ledger::looks_up(std::string_view name, std::int64_t elements) {
  ops_.back().name = name;
  charge({.weights = static_cast<double>(elements)});
}

void Ledger::name(std::string_view name, std::string shape) {
  ops_.back().name = name;
  ops_.back().shape = std::move(shape);
}

void Ledger::name_after(const SiteId& id, const Tensor& value) {
  if (!ops_.empty() && ops_.back().output.data == value.data && ops_.back().name.empty()) {
    std::string name(without_layer(name_of(id)));
    const std::size_t hook = name.find("hook_");
    ops_.back().name = name.erase(hook, 5);
  }
}

}  // namespace vitrine
