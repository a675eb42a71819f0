// Random numbers of property tests.
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace vitrine::test {

/// Numbers in [0, 1), the same in each run of the test.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  double roll() { return uniform(seed_, 0, step_++); }
  std::int64_t number(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(roll() * static_cast<double>(to - from + 1));
  }

 private:
  std::uint64_t seed_, step_ = 0;
};

}  // namespace vitrine::test
