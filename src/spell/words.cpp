#include "spell/words.h"

namespace vitrine {

std::string name_of_element(const std::string& name, const Shape& shape, std::int64_t flat) {
  std::string index;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index = std::to_string(flat % shape[i]) + (index.empty() ? "" : "," + index);
    flat /= shape[i];
  }
  return name + "[" + index + "]";
}

SectionWords words_of(const ForwardFacts& f, const std::string& site) {
  const Operand& operand = f.operand_at(site);
  if (!operand.produced_by) return {};
  const StepOp& op = f.ops[*operand.produced_by];
  const OpDescription& description = description_of(op.call.kind);
  const std::string formula =
      operand.name != site ? symbol(site) + " = " + symbol(operand.name) : description.forward.formula.of({f, op});
  return {formula, std::string(description.file)};
}

Cell spell_forward(const ForwardFacts& f, const std::string& site, std::int64_t flat) {
  const Operand& operand = f.operand_at(site);
  if (operand.name != site || !operand.produced_by) return std::nullopt;
  const StepOp& op = f.ops[*operand.produced_by];
  const auto cell = description_of(op.call.kind).forward.cell;
  return cell == nullptr ? std::nullopt : cell({f, op}, flat);
}

}  // namespace vitrine
