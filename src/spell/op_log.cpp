#include "spell/op_log.h"

#include <cstring>

#include "ops/op_kind.h"

namespace vitrine {

Seen seen(const SiteId& id, const Tensor& value) {
  return {id, value.shape, {value.values().begin(), value.values().end()}};
}

void OpLog::see(const SiteId& id, const Tensor& value) {
  take_new_ops();
  const std::size_t operand = operand_with(value);
  f_.operand_of[name_of(id)] = operand;
  visits_[name_of(id)].push_back(operand);
  f_.operands[operand].last_name = name_of(id);
  if (!f_.operands[operand].name.empty()) return;
  f_.operands[operand].name = name_of(id);
  f_.operands[operand].site_shape = value.shape;
}

void OpLog::see_gradient(const SiteId& id, const Tensor& gradient) {
  std::vector<std::size_t>& visits = visits_.at(name_of(id));
  f_.operands[visits.back()].gradient = seen(id, gradient);
  visits.pop_back();
}

void OpLog::take_new_ops() {
  for (; taken_ < ledger_.ops().size(); ++taken_) {
    const LedgerOp& from = ledger_.ops()[taken_];
    const OpKind kind = from.call.kind;
    StepOp op{from.call, from.weight != nullptr ? from.weight->name : ""};
    if (!description_of(kind).is_given() && from.inputs.empty()) continue;  // not an op of the tape
    if (kind == OpKind::embed || kind == OpKind::embed_positions) op.param = from.name + ".weight";
    if (kind == OpKind::row_range && from.output.count() == from.inputs[0].count()) {  // a copy
      at_[from.output.data] = operand_with(from.output);
      continue;
    }
    for (const Tensor& input : from.inputs) {
      op.inputs.push_back(input_at(input, from.output));
      f_.operands[op.inputs.back()].uses.emplace_back(f_.ops.size(), op.inputs.size() - 1);
    }
    op.output = add(from.output);
    f_.operands[op.output].produced_by = f_.ops.size();
    f_.ops.push_back(std::move(op));
  }
}

std::optional<std::size_t> OpLog::find(const Tensor& value) const {
  const auto has_values = [&](const Operand& operand) {
    return operand.value.values.size() == static_cast<std::size_t>(value.count()) &&
           std::memcmp(operand.value.values.data(), value.data, operand.value.values.size() * sizeof(float)) == 0;
  };
  const auto it = at_.find(value.data);
  if (it != at_.end() && has_values(f_.operands[it->second])) return it->second;
  for (std::size_t i = f_.operands.size(); i-- > 0;) {
    if (has_values(f_.operands[i])) return i;
  }
  return std::nullopt;
}

std::size_t OpLog::operand_with(const Tensor& value) {
  const std::optional<std::size_t> found = find(value);
  return found ? at_[value.data] = *found : add(value);
}

std::size_t OpLog::input_at(const Tensor& value, const Tensor& output) {
  const std::optional<std::size_t> found = value.data == output.data ? std::nullopt : find(value);
  if (found) return *found;
  const auto it = at_.find(value.data);
  return it != at_.end() ? it->second : add(value);
}

std::size_t OpLog::add(const Tensor& value) {
  f_.operands.push_back({"", "", seen({}, value), {}, {}, {}, {}});
  return at_[value.data] = f_.operands.size() - 1;
}

}  // namespace vitrine
