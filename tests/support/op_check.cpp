#include "support/op_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "base/rng.h"

namespace vitrine::test {
namespace {

using reference::Complex;

constexpr float kBefore = 0.5f;  // what stands in every gradient before the backward, which adds

std::vector<float> random_values(std::int64_t n, double spread, std::uint64_t sequence) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) {
    values.push_back(static_cast<float>(spread * (2 * uniform(11, sequence, static_cast<std::uint64_t>(i)) - 1)));
  }
  return values;
}

/// A parameter as a file may have it.
class StoredParam {
 public:
  StoredParam(const Shape& shape, DType dtype, bool transposed, std::vector<float> values)
      : dtype_(dtype), values_(std::move(values)) {
    if (shape.rank() == 0) return;
    const std::int64_t cols = shape[shape.rank() - 1], rows = shape.count() / cols;
    std::vector<float> stored = values_;
    for (std::int64_t i = 0; i < shape.count() && transposed; ++i) {
      stored[static_cast<std::size_t>(i % cols * rows + i / cols)] = values_[static_cast<std::size_t>(i)];
    }
    bytes_.resize(static_cast<std::size_t>(shape.count() * size_of(dtype)));
    default_kernels().narrow(stored.data(), shape.count(), dtype, bytes_.data());
    const MatrixView view = transposed ? MatrixView{bytes_.data(), dtype, rows, cols, 1, rows}
                                       : MatrixView{bytes_.data(), dtype, rows, cols, cols, 1};
    param = {"w", "w", shape, view};
    for (std::int64_t i = 0; i < shape.count(); ++i) {  // what was stored, not what was meant
      default_kernels().widen(view.at(i / cols, i % cols), dtype, 1, &values_[static_cast<std::size_t>(i)]);
    }
  }

  const std::vector<float>& values() const { return values_; }
  Param param;

 private:
  DType dtype_;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
};

/// Everything that a run is made of.
struct Made {
  std::vector<std::vector<float>> inputs;
  StoredParam weight, bias;

  explicit Made(const OpCase& c)
      : weight(c.weight, c.weight_dtype, c.transposed, random_values(c.weight.count(), 1, 100)),
        bias(c.bias, DType::f32, false, random_values(c.bias.count(), 1, 101)) {
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      inputs.push_back(random_values(c.inputs[i].count(), c.spread, i));
    }
  }
  std::vector<std::vector<Complex>> all() const {
    std::vector<std::vector<Complex>> values;
    for (const auto& input : inputs) values.emplace_back(input.begin(), input.end());
    for (const StoredParam* param : {&weight, &bias}) {
      if (param->param.present()) values.emplace_back(param->values().begin(), param->values().end());
    }
    return values;
  }
};

std::vector<float> result_gradient(std::size_t n) { return random_values(static_cast<std::int64_t>(n), 1, 200); }

void expect_near(const std::vector<float>& ours, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(ours.size(), expected.size()) << what;
  double largest = 0;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(ours[i]), expected[i], tolerance * largest) << what << ", element " << i;
  }
}

}  // namespace

OpRun run_op(const OpCase& c, int threads) {
  Made made(c);
  Gradients gradients;
  Operands operands{{}, {made.weight.param, made.bias.param}, {made.weight.param, made.bias.param}};
  const std::vector<std::vector<const Param*>> params = {{&operands.linear.weight, &operands.norm.weight},
                                                         {&operands.linear.bias, &operands.norm.bias}};
  for (const auto& forms : params) {
    for (const Param* param : forms) {
      if (!param->present()) continue;
      gradients.add(*param);
      const Tensor g = gradients.of(*param);
      std::fill_n(g.data, g.count(), kBefore);
    }
  }
  ThreadPool pool(threads);
  Arena arena;
  Tape tape(gradients);
  Pass pass{{pool, default_kernels(), arena}, {}, {}, c.taps};
  pass.training.tape = &tape;
  std::int64_t first = 0;
  const std::vector<std::int64_t> lengths =
      c.lengths.empty() ? std::vector{c.inputs.empty() ? 1 : c.inputs[0][0]} : c.lengths;
  for (const std::int64_t length : lengths) {
    pass.segments.push_back({first, length, 0, nullptr});
    first += length;
  }
  OpRun run;
  for (const auto& values : made.all()) {
    std::transform(values.begin(), values.end(), std::back_inserter(run.operands.emplace_back()),
                   [](const Complex& v) { return static_cast<float>(v.real()); });
  }
  run.gradients.resize(c.inputs.size());
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor x = pass.tensor(c.inputs[i]);
    std::copy(made.inputs[i].begin(), made.inputs[i].end(), x.data);
    tape.record("input", {}, x, [] {});
    tape.watch(x, [&run, i](const Tensor& g) { run.gradients[i].assign(g.data, g.data + g.count()); });
    const Tensor g = tape.grad(x);
    std::fill_n(g.data, g.count(), kBefore);
    operands.x.push_back(x);
  }
  const Tensor y = c.run(pass, operands);
  run.result.assign(y.data, y.data + y.count());
  run.result_gradient = result_gradient(run.result.size());
  const Tensor gradient = tape.grad(y);
  std::copy(run.result_gradient.begin(), run.result_gradient.end(), gradient.data);
  tape.unwind();
  for (const auto& forms : params) {
    if (!forms[0]->present()) continue;
    const Tensor a = gradients.of(*forms[0]), b = gradients.of(*forms[1]);  // the op knows one of the two
    std::vector<float>& sum = run.gradients.emplace_back(a.data, a.data + a.count());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b.data[i] - kBefore;
  }
  return run;
}

void check_op(const OpCase& c, double tolerance) {
  constexpr double kStep = 1e-50;
  const Made made(c);
  std::vector<std::vector<Complex>> operands = made.all();
  const OpRun run = run_op(c);
  ASSERT_EQ(run.gradients.size(), operands.size());
  std::vector<double> expected;
  for (const Complex& y : c.formula(operands)) expected.push_back(y.real());
  expect_near(run.result, expected, tolerance, "the result");
  const std::vector<float>& dy = run.result_gradient;
  for (std::size_t j = 0; j < operands.size(); ++j) {
    std::vector<double> gradient;
    for (Complex& x : operands[j]) {
      x += Complex(0, kStep);
      const std::vector<Complex> y = c.formula(operands);
      double sum = 0;
      for (std::size_t o = 0; o < y.size(); ++o) sum += static_cast<double>(dy[o]) * y[o].imag() / kStep;
      gradient.push_back(sum + static_cast<double>(kBefore));
      x = x.real();
    }
    expect_near(run.gradients[j], gradient, tolerance, "the gradient by operand " + std::to_string(j));
  }
}

}  // namespace vitrine::test
