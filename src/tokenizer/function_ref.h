// A non-owning reference to a callable object, for parameters. It does not allocate.
#pragma once

#include <type_traits>
#include <utility>

namespace vitrine {

template <class Signature>
class FunctionRef;

/// Valid as long as the callable that it refers to. Use it for parameters only and do not store it.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // implicit, so that a lambda can be passed
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace vitrine
