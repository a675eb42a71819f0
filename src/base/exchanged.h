// Assigns a variable for the duration of a scope.
#pragma once

#include <utility>

namespace vitrine {

/// Assigns `value` to `place` and restores the old value at the end of the scope.
template <class T>
class Exchanged {
 public:
  Exchanged(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;
  ~Exchanged() { place_ = before_; }

 private:
  T& place_;
  T before_;
};

}  // namespace vitrine
