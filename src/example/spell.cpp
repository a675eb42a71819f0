#include "example/spell.h"

#include <cmath>

#include "spell/op_kinds.h"

namespace vitrine {
namespace {

const Operand& operand_at(const Facts& f, const std::string& site) { return f.operands[f.operand_of.at(site)]; }

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
  const Operand& operand = operand_at(f, site);
  if (operand.last_name != site) return std::nullopt;
  std::vector<Arithmetic> parts;
  for (const auto& [op, input] : operand.uses) {
    const OpKind* const kind = kind_of(f.ops[op]);
    if (kind == nullptr || kind->gradient_cell == nullptr) return std::nullopt;
    if (kind->reads_gradient && f.gradient_of(f.ops[op].output) == nullptr) return std::nullopt;
    const Cell part = kind->gradient_cell({f, f.ops[op]}, input, flat);
    if (!part) return std::nullopt;
    parts.push_back(*part);
  }
  if (parts.empty() || (parts.size() == 1 && parts.front().is_number())) return std::nullopt;
  return sum_of(parts);
}

/// What one op adds to element `flat` of its weight's or bias's gradient.
void add_param_terms(const Facts& f, const StepOp& op, const std::string& param, std::int64_t flat,
                     std::vector<Arithmetic>& terms) {
  const Seen *const dy = f.gradient_of(op.output), &w = f.params.at(param);
  if (dy == nullptr) return;
  const bool is_bias = param.ends_with(".bias");
  const bool is_matrix = !is_bias && op.kind != "norm_weight";
  const std::int64_t width = is_matrix ? w.shape[1] : w.count();
  if (op.kind == "embed") {
    const float scale = f.config->embedding.scale;
    for (std::int64_t t = 0; t < f.n_tokens(); ++t) {
      if (f.ids[static_cast<std::size_t>(t)] != flat / width) continue;
      const Arithmetic dx((*dy)[t * width + flat % width]);
      terms.push_back(scale != 1 ? Arithmetic(scale) * dx : dx);
    }
    return;
  }
  if (op.inputs.empty()) return;
  const Seen& x = f.operands[op.inputs[0]].value;
  const std::int64_t out = is_matrix ? w.shape[0] : w.count(), row = is_matrix ? flat / width : flat;
  for (std::int64_t t = 0; t < dy->count() / out; ++t) {
    const float d = (*dy)[t * out + row];
    if (d == 0) continue;
    const Arithmetic dt(d);
    terms.push_back(is_bias ? dt : dt * Arithmetic(x[t * width + flat % width]));
  }
}

/// The parts of a parameter's gradient from ops of `kind`, or of all kinds ("").
Cell param_gradient_cell(const Facts& f, const std::string& param, std::string_view kind, std::int64_t flat) {
  std::vector<Arithmetic> terms;
  for (const StepOp& op : f.ops) {
    if (uses(op, param) && (kind.empty() || op.kind == kind)) add_param_terms(f, op, param, flat, terms);
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
  const Operand& operand = operand_at(f, site);
  SectionWords words;
  std::string sum;
  if (operand.last_name != site) return words;
  for (const auto& [op, input] : operand.uses) {
    const OpKind* const kind = kind_of(f.ops[op]);
    if (kind == nullptr) continue;
    const std::string part = kind->gradient_formula({f, f.ops[op]}, input);
    sum += (sum.empty() ? "" : " + ") + part;
    join(words.file, kind->file, ", ");
  }
  const bool is_changed = operand.uses.size() > 1 || sum.find(' ') != std::string::npos;
  if (is_changed) words.formula = "d" + symbol(site) + " = " + sum;
  return words;
}

SectionWords param_gradient_words_of(const Facts& f, const std::string& param) {
  SectionWords words;
  std::string sum;
  for (const StepOp& op : f.ops) {
    const OpKind* const kind = uses(op, param) ? kind_of(op) : nullptr;
    if (kind == nullptr) continue;
    join(sum, param.ends_with(".bias") ? "Σ_{t} dy_{t}" : kind->param_gradient_formula, " + ");
    join(words.file, kind->file, ", ");
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
  if (prefix == "input") return param_gradient_cell(f, name, "embed", flat);
  if (prefix == "head") return param_gradient_cell(f, name, "linear", flat);
  if (prefix == "new") return update_cell(f, name, flat);
  if (f.param_gradients.contains(name)) return param_gradient_cell(f, name, "", flat);
  return gradient_cell(f, name, flat);
}

}  // namespace vitrine
