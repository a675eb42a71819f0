// What the program says about an op: its formula, the arithmetic of an element, the elements that it is computed from,
// and what the op adds to the gradients of its inputs and its weight. It is written once, in the op's file.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/arithmetic.h"
#include "ops/op_kind.h"
#include "pass/sites.h"
#include "tensor/tensor.h"

namespace vitrine {

/// A recorded value.
struct Seen {
  SiteId site;  ///< Set for a value or gradient at a site.
  Shape shape;
  std::vector<float> values;
  std::int64_t first = 0;  ///< The element that values[0] is: of a large parameter, only a row may be kept.

  float operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i - first)]; }
  std::int64_t count() const { return static_cast<std::int64_t>(values.size()); }
  std::int64_t last_size() const { return shape[shape.rank() - 1]; }
};

using SeenByName = std::map<std::string, Seen>;

/// An input or output of an op.
struct Operand {
  std::string name;       ///< Of its first site; "" if it has none. Consecutive sites may have the same value.
  std::string last_name;  ///< Of its last site, where its gradient arrives.
  Seen value;
  std::optional<Seen> gradient;                           ///< If it was recorded.
  Shape site_shape;                                       ///< At its site, where heads are a dimension.
  std::optional<std::size_t> produced_by;                 ///< Index of the op; none for ids.
  std::vector<std::pair<std::size_t, std::size_t>> uses;  ///< Index of the StepOp, and of its input.
};

/// An op of the forward, from its ledger.
struct StepOp {
  OpCall call;
  std::string param;  ///< `blocks.0.attn.wq.weight`; "" if it has none.
  std::vector<std::size_t> inputs{};
  std::size_t output = 0;
};

/// The values and ops of one forward of one sequence.
struct OpTrace {
  std::vector<std::int32_t> ids, targets;
  std::vector<float> weights;  ///< Of each row's loss; empty without a loss.
  SeenByName values;           ///< At sites; a loss also needs `softmax`, the probabilities.
  std::vector<Operand> operands;
  std::vector<StepOp> ops;
  SeenByName params;
  /// Of a dot product whose text is longer than this, the remaining terms are only added. The text is then cut off.
  std::size_t max_text = std::numeric_limits<std::size_t>::max();

  std::int64_t n_tokens() const { return static_cast<std::int64_t>(ids.size()); }
};

/// Elements first, first + step, … of an input of an op or of a parameter.
struct OperandElements {
  std::optional<std::size_t> input;  ///< Absent: `param`.
  std::string param{};
  std::int64_t first = 0, step = 1, n = 1;
};

/// An op of a forward.
struct OpView {
  const OpTrace& trace;
  const StepOp& op;

  const Seen& input(std::size_t k) const { return trace.operands[op.inputs[k]].value; }
  const Seen& output() const { return trace.operands[op.output].value; }
  const Seen& gradient() const { return trace.operands[op.output].gradient.value(); }
  const Seen& weight() const { return trace.params.at(op.param); }
  std::string bias_name() const { return op.param.substr(0, op.param.rfind('.')) + ".bias"; }
  /// Null if it has none.
  const Seen* bias() const {
    const auto it = trace.params.find(bias_name());
    return it == trace.params.end() ? nullptr : &it->second;
  }
  template <class Settings>
  const Settings& settings() const {
    return std::get<Settings>(op.call.settings);
  }
  template <class Config>
  const Config& config() const {
    return *settings<const Config*>();
  }
  const Seen& values_of(const OperandElements& e) const { return e.input ? input(*e.input) : trace.params.at(e.param); }
};

/// Empty if the arithmetic would be too long.
using Cell = std::optional<Arithmetic>;

/// A text in the notation of spell/formula.h, one of two, or a function that writes it. `$y`, `$a` and `$b` are the
/// symbols of the output and of the first two inputs.
class Formula {
 public:
  constexpr Formula() = default;
  constexpr Formula(const char* text) : text_(text) {}                       // NOLINT: implicit
  constexpr Formula(std::string (*write)(const OpView&)) : write_(write) {}  // NOLINT: implicit
  constexpr Formula(bool (*holds)(const OpView&), const char* text, const char* otherwise)
      : holds_(holds), text_(text), otherwise_(otherwise) {}

  std::string of(const OpView& v) const;
  constexpr bool is_given() const { return write_ != nullptr || !text_.empty(); }

 private:
  bool (*holds_)(const OpView&) = nullptr;
  std::string (*write_)(const OpView&) = nullptr;
  std::string_view text_{}, otherwise_{};
};

struct OpDescription {
  using Elements = std::vector<OperandElements>;
  /// Which of its elements a trail follows: the first, the second, or the one with the larger value.
  enum class Trail : std::uint8_t { first, second, larger };

  struct Forward {
    Formula formula{};
    /// The arithmetic of element `flat` of the output. May be null.
    Cell (*cell)(const OpView& v, std::int64_t flat) = nullptr;
    /// What the element is computed from: both factors of a sum of products, then what is added. Null: a trail ends.
    Elements (*elements)(const OpView& v, std::int64_t flat) = nullptr;
    Trail trail = Trail::first;
  };
  /// What the op adds to the gradients of its inputs.
  struct Gradient {
    Formula first{};  ///< Of input 0.
    Cell (*cell)(const OpView& v, std::size_t input, std::int64_t flat) = nullptr;
    Formula others{};            ///< Of the other inputs, if it is not the same.
    bool reads_gradient = true;  ///< Whether `cell` needs the gradient of the output.

    std::string formula(const OpView& v, std::size_t input) const {
      return (input > 0 && others.is_given() ? others : first).of(v);
    }
  };
  /// What it adds to the gradient of its weight.
  struct WeightGradient {
    std::string_view formula{};
    void (*add_terms)(const OpView& v, std::int64_t flat, std::vector<Arithmetic>& terms) = nullptr;
  };

  std::string_view file{};  ///< "": the op is shown without a formula.
  Forward forward{};
  Gradient gradient{};
  WeightGradient weight{};

  bool is_given() const { return !file.empty(); }
};

#define VITRINE_DECLARE(name) extern const OpDescription name##_op;
VITRINE_DESCRIBED_OPS(VITRINE_DECLARE)
#undef VITRINE_DECLARE

const OpDescription& description_of(OpKind kind);

// For descriptions

inline OperandElements of_input(std::size_t k, std::int64_t first, std::int64_t n = 1, std::int64_t step = 1) {
  return {k, "", first, step, n};
}
inline OperandElements of_param(const std::string& param, std::int64_t first, std::int64_t n = 1) {
  return {std::nullopt, param, first, 1, n};
}
/// Element `flat` of every input.
OpDescription::Elements same_element(const OpView& v, std::int64_t flat);

/// The gradient of the output itself.
Cell passed_on(const OpView& v, std::size_t input, std::int64_t flat);
constexpr OpDescription::Gradient kPassedOn{"d$y", passed_on};

/// exp(x) of element i divided by the sum of the exponentials of its row.
Cell softmax_at(const Seen& x, std::int64_t i);
Cell softmax_cell(const OpView& v, std::int64_t flat);
Cell softmax_gradient_cell(const OpView& v, std::size_t input, std::int64_t flat);
constexpr const char* kSoftmax = "p_{i} = {exp(s_{i})}/{Σ_{u} exp(s_{u})}";
constexpr OpDescription::Gradient kSoftmaxGradient{"p_{i} · (dp_{i} − Σ_{u} p_{u} · dp_{u})", softmax_gradient_cell};

/// A whole number, written without decimal places.
Arithmetic whole(std::int64_t n);
Arithmetic exponential(const Arithmetic& x);

/// The symbol in formulas for the value at a site: the end of its name, or x if `site` is "".
std::string symbol(const std::string& site);

/// Σ_i x[x_first + i · x_step] · w[w_first + i · w_step], n terms, without those whose x is exactly 0. Terms after
/// `max_text` characters are not written.
Arithmetic dot(const OpView& v, const Seen& x, std::int64_t x_first, std::int64_t x_step, const Seen& w,
               std::int64_t w_first, std::int64_t w_step, std::int64_t n);
/// Σ_i x_i · w_i
inline Arithmetic dot(const OpView& v, const OperandElements& x, const OperandElements& w) {
  return dot(v, v.values_of(x), x.first, x.step, v.values_of(w), w.first, w.step, x.n);
}

}  // namespace vitrine
