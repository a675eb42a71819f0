// Python's lock, and the end of the interpreter.
//
// Before 3.14, Python ends a thread that wants the lock after the interpreter has ended, such as a daemon thread that
// returns from a call, by pthread_exit: by unwinding its stack, where a destructor or a function that may not throw
// aborts the process. Here such a thread waits for the end of the process instead, as in 3.14.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace vitrine::python {

[[noreturn]] inline void wait_for_the_end() {
  for (;;) pause();
}

/// Calls function(). If Python ends the thread within it, the thread waits.
template <class Function>
auto unless_ended(Function&& function) {
  try {
    return function();
  } catch (const abi::__forced_unwind&) {
    wait_for_the_end();
  }
}

/// Gives the lock away, and takes it again at the end of the scope.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased() {
    unless_ended([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

/// Calls function() with the lock, on any thread: also on one that Python does not know, and which may outlive the
/// interpreter.
template <class Function>
auto with_gil(Function&& function) {
  struct Held {
    Held() : state(PyGILState_Ensure()) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { PyGILState_Release(state); }
    PyGILState_STATE state;
  };
  if (PyGILState_GetThisThreadState() == nullptr && Py_IsInitialized() == 0) wait_for_the_end();
  const Held held = unless_ended([] { return Held(); });
  return unless_ended(function);
}

}  // namespace vitrine::python
