// The binding of vitrine.h: what its files share. Calls release the GIL; callbacks and conversions hold it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <vitrine/vitrine.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gil.h"

namespace vitrine::python {

namespace nb = nanobind;

constexpr std::size_t kLongText = 100'000;  // bytes; tokenizing more may take a noticeable time

/// An array of float32 that owns `values`, without a copy.
nb::object array_of(std::vector<float> values, std::span<const std::int64_t> shape);
/// An array of float32 in new, uninitialized memory, whose address is put into `memory`.
nb::object new_array(std::span<const std::int64_t> shape, float*& memory);
/// Text as Python has it; bytes that are not UTF-8 become U+FFFD.
nb::object text_of(const std::string& bytes);

/// An owner of a Python object, whose last copy may be destroyed without the GIL.
template <class T>
std::shared_ptr<T> shared(T object) {
  return {new T(std::move(object)), [](T* p) { with_gil([p] { delete p; }); }};
}

/// A text, or ids: an array of int32.
Prompt prompt_of(const nb::object& prompt);

/// Raises vitrine.BadInput.
[[noreturn]] void raise_bad_input(const std::string& message);

/// Marks an object as in use for the time of a call. A call runs without the GIL, so another thread, or a callback,
/// could use the object at the same time.
class InUse {
 public:
  /// Raises BadInput if the object is in use; `what` names it.
  InUse(std::atomic_flag& flag, const std::string& what) : flag_(flag) {
    if (flag.test_and_set()) raise_bad_input("[" + what + "] another call on it is running");
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  ~InUse() { flag_.clear(); }

 private:
  std::atomic_flag& flag_;
};

/// Looks for signals on Python's main thread, such as Ctrl-C. Throws the exception of a handler.
void poll_signals();

/// Runs a function that does not look for signals on a thread of its own, and looks for them meanwhile. Call it without
/// the GIL. If a signal's handler throws, the function runs to its end without effect, so it must own what it uses.
template <class Function>
auto watched(Function function) {
  std::packaged_task<decltype(function())()> task(std::move(function));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  while (result.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) poll_signals();
  return result.get();
}

/// A Watch that calls Python functions. `find` returns, for the name of a site, the site and the list of its functions.
/// Each is called with (value, site), and returns the value to continue with, or None. `sites` are globs. No watch if
/// `find` is None.
Watch watch_of(const nb::object& find, std::vector<std::string> sites);

void bind_model(nb::module_& m);
void bind_batch(nb::class_<LanguageModel>& model);
void bind_stream(nb::module_& m);
void bind_tokenizer(nb::module_& m);
void bind_trainer(nb::module_& m);

}  // namespace vitrine::python
