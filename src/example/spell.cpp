#include "example/spell.h"

#include <cmath>

#include "ops/op_kind.h"

namespace vitrine {
namespace {

void join(std::string& text, std::string_view part, const char* between) {
  if (part.empty() || text.find(part) != std::string::npos) return;
  text += (text.empty() ? "" : between) + std::string(part);
}

/// Whether a parameter is the weight or the bias of an op.
bool uses(const StepOp& op, const std::string& param) {
  return !op.param.empty() && op.param.substr(0, op.param.rfind('.')) == param.substr(0, param.rfind('.'));
}

/// The sum of what the ops that use a value add to its gradient.
Cell gradient_cell(const Facts& f, const std::string& site, std::int64_t flat) {
  const Operand& operand = f.operand_at(site);
  if (operand.last_name != site) return std::nullopt;
  std::vector<Arithmetic> parts;
  for (const auto& [op, input] : operand.uses) {
    const OpDescription& description = description_of(f.ops[op].call.kind);
    if (description.gradient.cell == nullptr) return std::nullopt;
    if (description.gradient.reads_gradient && !f.operands[f.ops[op].output].gradient) return std::nullopt;
    const Cell part = description.gradient.cell({f, f.ops[op]}, input, flat);
    if (!part) return std::nullopt;
    parts.push_back(*part);
  }
  if (parts.empty() || (parts.size() == 1 && parts.front().is_number())) return std::nullopt;
  return sum_of(parts);
}

/// The parts of a parameter's gradient from ops of `kind`, or of all kinds.
Cell param_gradient_cell(const Facts& f, const std::string& param, std::optional<OpKind> kind, std::int64_t flat) {
  std::vector<Arithmetic> terms;
  for (const StepOp& op : f.ops) {
    const OpDescription& description = description_of(op.call.kind);
    const std::optional<Seen>& dy = f.operands[op.output].gradient;
    if (!uses(op, param) || description.weight.add_terms == nullptr || !dy) continue;
    if (kind && op.call.kind != *kind) continue;
    if (param.ends_with(".bias")) {
      for (std::int64_t i = flat; i < dy->count(); i += f.params.at(param).count()) {
        if ((*dy)[i] != 0) terms.emplace_back((*dy)[i]);
      }
    } else {
      description.weight.add_terms({f, op}, flat, terms);
    }
  }
  if (terms.empty() || (terms.size() == 1 && terms.front().is_number())) return std::nullopt;
  return sum_of(terms);
}

Arithmetic update_cell(const Facts& f, const std::string& param, std::int64_t flat) {
  const OptimizerConfig& c = f.optimizer;
  const Seen& before = f.params.at(param);
  const Arithmetic p(before[flat]), g(f.param_gradients.at(param)[flat]), lr(f.lr, decimal(f.lr, 4));
  if (c.kind == OptimizerConfig::Kind::sgd) return p - lr * g;
  // m and v are 0 initially, so after one step m / (1 − β1) is the gradient and v / (1 − β2) its square.
  const Arithmetic step = lr * (g / (function("√", std::sqrt, squared(g)) + Arithmetic(c.eps, decimal(c.eps, 3))));
  if (before.shape.rank() < 2 || c.weight_decay == 0) return p - step;
  return p * (Arithmetic(1, "1") - lr * Arithmetic(c.weight_decay)) - step;
}

}  // namespace

SectionWords gradient_words_of(const Facts& f, const std::string& site) {
  const Operand& operand = f.operand_at(site);
  SectionWords words;
  std::string sum;
  if (operand.last_name != site) return words;
  for (const auto& [op, input] : operand.uses) {
    const OpDescription& description = description_of(f.ops[op].call.kind);
    if (!description.is_given()) continue;
    sum += (sum.empty() ? "" : " + ") + description.gradient.formula({f, f.ops[op]}, input);
    join(words.file, description.file, ", ");
  }
  const bool is_changed = operand.uses.size() > 1 || sum.find(' ') != std::string::npos;
  if (is_changed) words.formula = "d" + symbol(site) + " = " + sum;
  return words;
}

SectionWords param_gradient_words_of(const Facts& f, const std::string& param) {
  SectionWords words;
  std::string sum;
  for (const StepOp& op : f.ops) {
    const OpDescription& description = description_of(op.call.kind);
    if (!uses(op, param) || !description.is_given()) continue;
    join(sum, param.ends_with(".bias") ? "Σ_{t} dy_{t}" : description.weight.formula, " + ");
    join(words.file, description.file, ", ");
  }
  if (!sum.empty()) words.formula = (param.ends_with(".bias") ? "db = " : "dW = ") + sum;
  return words;
}

std::optional<Arithmetic> spell(const Facts& f, const std::string& section, std::int64_t flat) {
  const std::size_t colon = section.find(':');
  const std::string prefix = section.substr(0, colon == std::string::npos ? 0 : colon);
  const std::string name = section.substr(colon == std::string::npos ? 0 : colon + 1);
  if (name == "softmax") return softmax_at(f.values.at("hook_logits"), flat);
  if (prefix.empty()) return f.operand_of.contains(name) ? spell_forward(f, name, flat) : std::nullopt;
  if (prefix == "input") return param_gradient_cell(f, name, OpKind::embed, flat);
  if (prefix == "head") return param_gradient_cell(f, name, OpKind::linear, flat);
  if (prefix == "new") return update_cell(f, name, flat);
  if (f.param_gradients.contains(name)) return param_gradient_cell(f, name, {}, flat);
  return gradient_cell(f, name, flat);
}

}  // namespace vitrine
