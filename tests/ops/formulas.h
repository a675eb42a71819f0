// What the tests of gradients of ops share: formulas in complex numbers (support/op_check.h).
#pragma once

#include <vector>

#include "support/op_check.h"

namespace vitrine::test {

using reference::Complex;
using Vector = std::vector<Complex>;
using All = std::vector<Vector>;

/// An elementwise formula.
template <class Function>
auto each(Function function) {
  return [function](const All& x) {
    Vector y;
    for (const Complex& v : x[0]) y.push_back(function(v));
    return y;
  };
}

}  // namespace vitrine::test
