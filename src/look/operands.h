// Which elements of its operands an element of an op's output is computed from.
#pragma once

#include <string>
#include <vector>

#include "spell/op_kinds.h"

namespace vitrine {

/// Elements first, first + step, … of an input of an op or of a parameter.
struct OperandElements {
  std::optional<std::size_t> input;  ///< Absent: `param`.
  std::string param{};
  std::int64_t first = 0, step = 1, n = 1;
};

/// For element `flat` of the output. Empty for an op that is not in the list: it ends a trail.
std::vector<OperandElements> operands_of(const OpView& v, std::int64_t flat);

}  // namespace vitrine
