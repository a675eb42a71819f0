#include "spell/words.h"

namespace vitrine {

SectionWords words_of(const ForwardFacts& f, const std::string& site) {
  const Operand& operand = f.operands[f.operand_of.at(site)];
  if (!operand.made_by) return {};
  const StepOp& op = f.ops[*operand.made_by];
  const OpKind* const kind = kind_of(op);
  if (operand.name != site)
    return {symbol(site) + " = " + symbol(operand.name), kind == nullptr ? "" : std::string(kind->file)};
  return kind == nullptr ? SectionWords{} : SectionWords{kind->formula({f, op}), std::string(kind->file)};
}

Cell spell_forward(const ForwardFacts& f, const std::string& site, std::int64_t flat) {
  const Operand& operand = f.operands[f.operand_of.at(site)];
  if (operand.name != site || !operand.made_by) return std::nullopt;
  const StepOp& op = f.ops[*operand.made_by];
  const OpKind* const kind = kind_of(op);
  return kind == nullptr || kind->cell == nullptr ? std::nullopt : kind->cell({f, op}, flat);
}

}  // namespace vitrine
