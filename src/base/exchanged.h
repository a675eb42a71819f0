// Another value for the length of a scope.
#pragma once

#include <utility>

namespace vitrine {

/// Puts `value` at `place`, and back at the end of the scope what stood there.
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
