// Numbers within bounds, as digits.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "constrain/grammar.h"
#include "constrain/schema/decimal.h"

namespace vitrine::constrain {

struct Bound {
  Decimal value;
  bool excluded = false;
};

/// What the keywords of numbers say.
struct NumberLimits {
  bool is_integer = false;
  std::optional<Bound> min, max;
  std::vector<Decimal> multiples_of{};  ///< Positive.

  bool allows(const Decimal& value) const;
  /// Whether no number is between the bounds.
  bool is_empty() const;
  bool has_limits() const { return min || max || !multiples_of.empty(); }
  void raise_min(const Bound& bound);
  void lower_max(const Bound& bound);
};

/// The numbers that `limits`, which has some, allow: without exponents, and not "-0". Throws Unsupported for a
/// `multipleOf` that would need too many states; `where` names the schema.
Expr limited_number(Grammar& grammar, const NumberLimits& limits, std::string_view where);

}  // namespace vitrine::constrain
