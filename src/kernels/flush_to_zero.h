// The floating-point mode of products in the pair order.
#pragma once

#include <xmmintrin.h>

namespace vitrine {
namespace {

/// While it exists, operands and results of this thread that are subnormal are zeros of their sign.
class FlushToZero {
 public:
  FlushToZero() : before_(_mm_getcsr()) { _mm_setcsr(kMode); }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;
  ~FlushToZero() { _mm_setcsr(before_); }

 private:
  /// Results and operands are flushed, no exception traps, and results are rounded to nearest even.
  static constexpr unsigned kMode = 0x8000 | 0x0040 | 0x1F80;

  unsigned before_;
};

}  // namespace
}  // namespace vitrine
