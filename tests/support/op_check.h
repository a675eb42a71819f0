// Compares an op's values and gradients with its formula, differentiated by complex steps.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "support/reference_ops.h"
#include "support/run.h"

namespace vitrine::test {

/// The arguments of an op: tensors on the tape, and trainable parameters, as LinearParams and as NormParams.
struct Operands {
  std::vector<Tensor> x;
  LinearParams linear;
  NormParams norm;
};

struct OpCase {
  std::vector<Shape> inputs;
  Shape weight{};  ///< Rank 0: no weight.
  Shape bias{};
  std::function<Tensor(Pass&, const Operands&)> run;
  /// Takes the inputs, then the weight and the bias if there are any.
  std::function<std::vector<reference::Complex>(const std::vector<std::vector<reference::Complex>>&)> formula;
  std::vector<std::int64_t> lengths{};  ///< Of the segments; none: one segment with all rows of the first input.
  double spread = 1.5;                  ///< Inputs are within ± spread.
  Taps* taps = nullptr;
  DType weight_dtype = DType::f32;
  bool transposed = false;  ///< The weight is stored `[in, out]`.
};

/// The results of an op: its output, and the gradients with respect to inputs, weight and bias. Each gradient is 0.5
/// before the backward, which adds to it.
struct OpRun {
  std::vector<std::vector<float>> operands;  ///< The arguments of the formula.
  std::vector<float> result, result_gradient;
  std::vector<std::vector<float>> gradients;
};

/// Runs the op forward, and backward from a random gradient of its output.
OpRun run_op(const OpCase& c, int threads = 2);
/// Does the same and compares everything with the formula: |Δ| ≤ tolerance · the largest value of the tensor.
void check_op(const OpCase& c, double tolerance = 1e-5);

}  // namespace vitrine::test
