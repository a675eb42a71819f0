// What is said about an op, once for each kind: its formula, the arithmetic of an element, and what it adds to
// the gradients of its inputs and parameters.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "spell/arithmetic.h"
#include "spell/facts.h"

namespace vitrine {

/// An op of a forward, with the facts about it.
struct OpView {
  const ForwardFacts& facts;
  const StepOp& op;

  const Seen& input(std::size_t k) const { return facts.operands[op.inputs[k]].value; }
  const Seen& output() const { return facts.operands[op.output].value; }
  const Seen& gradient() const { return facts.operands[op.output].gradient.value(); }
  const BlockConfig& block() const { return facts.block(op.layer); }
  const AttentionConfig& attention() const { return *find<AttentionConfig>(block()); }
};

using Cell = std::optional<Arithmetic>;

/// Formulas are in the notation of spell/formula.h. A cell is null or empty if the arithmetic would be too long.
struct OpKind {
  std::string_view name;  ///< As on the tape.
  std::string_view file;
  std::string (*formula)(const OpView&);
  Cell (*cell)(const OpView&, std::int64_t flat);
  /// What the op adds to the gradient of input `k`.
  std::string (*gradient_formula)(const OpView&, std::size_t k);
  Cell (*gradient_cell)(const OpView&, std::size_t k, std::int64_t flat);
  std::string_view param_gradient_formula{};  ///< What it adds to the gradient of its weight.
  bool reads_gradient = true;                 ///< Whether gradient_cell needs the gradient of the output.
};

/// Null for an op that has no entry: it is shown without a formula.
const OpKind* kind_of(const StepOp& op);

/// The kinds of attention and of softmax, which are part of the list that kind_of searches.
std::span<const OpKind> attention_kinds();

/// exp(x) of element i divided by the sum of the exponentials of its row.
Cell softmax_at(const Seen& x, std::int64_t i);

/// A whole number, written without decimal places.
Arithmetic whole(std::int64_t n);
Arithmetic exponential(const Arithmetic& x);

/// The symbol in formulas for the value at a site: the end of its name, or x if `site` is "".
std::string symbol(const std::string& site);

/// Σ_i x[x_first + i · x_step] · w[w_first + i · w_step], n terms, without those whose x is exactly 0. Terms after
/// `facts.most_text` characters are not written.
Arithmetic dot(const ForwardFacts& facts, const Seen& x, std::int64_t x_first, std::int64_t x_step, const Seen& w,
               std::int64_t w_first, std::int64_t w_step, std::int64_t n);

}  // namespace vitrine
