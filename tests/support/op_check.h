// Holds an op's values and gradients against its formula, by complex steps.
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

/// What an op is called with: tensors that the tape knows, and parameters that learn, under both types.
struct Operands {
  std::vector<Tensor> x;
  LinearParams linear;
  NormParams norm;
};

struct OpCase {
  std::vector<Shape> inputs;
  Shape weight{};  ///< Rank 0: none.
  Shape bias{};
  std::function<Tensor(Pass&, const Operands&)> run;
  /// The inputs, then the weight, then the bias, those that there are.
  std::function<std::vector<reference::Complex>(const std::vector<std::vector<reference::Complex>>&)> formula;
  std::vector<std::int64_t> lengths{};  ///< Of the pass's segments; none: one, as long as the first input.
  double spread = 1.5;                  ///< Inputs lie within ± spread.
  Taps* taps = nullptr;
  DType weight_dtype = DType::f32;
  bool transposed = false;  ///< The weight is stored `[in, out]`.
};

/// What an op made: its result, and the gradients by the inputs, the weight and the bias, each added to a 0.5 that
/// stood there before.
struct OpRun {
  std::vector<std::vector<float>> operands;  ///< As the formula gets them.
  std::vector<float> result, result_gradient;
  std::vector<std::vector<float>> gradients;
};

/// Runs the op forward and backward, from a random gradient of its result.
OpRun run_op(const OpCase& c, int threads = 2);
/// … and compares all with the formula: |Δ| ≤ tolerance · the largest of the tensor.
void check_op(const OpCase& c, double tolerance = 1e-5);

}  // namespace vitrine::test
