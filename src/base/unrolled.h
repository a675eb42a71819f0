// A loop written out at compile time. GCC keeps an array of vectors in registers only if every index is a constant.
#pragma once

#include <utility>

namespace vitrine {
namespace {

template <int kValue>
struct Constant {
  constexpr operator int() const { return kValue; }
};

/// function(Constant<0>{}), …, function(Constant<kCount − 1>{})
template <int kCount, class Function>
[[gnu::always_inline]] inline void unrolled(Function function) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) __attribute__((always_inline)) {
    (function(Constant<kIndex>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

}  // namespace
}  // namespace vitrine
