// vitrine._engine: errors and signals.
#include <atomic>

#include "engine.h"

namespace vitrine::python {
namespace {

std::atomic<unsigned long> g_main_thread = 0;  // Python's, whose signals are polled

/// Raises the class `name` of vitrine._errors.
void raise(const char* name, const std::string& message) {
  const nb::object type = unless_ended([] { return nb::module_::import_("vitrine._errors"); }).attr(name);
  PyErr_SetObject(type.ptr(), text_of(message).ptr());
}

void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const BadInput& e) {
    raise("BadInput", e.what());
  } catch (const BadCheckpoint& e) {
    raise("BadCheckpoint", e.what());
  } catch (const Unsupported& e) {
    raise("Unsupported", e.what());
  } catch (const OutOfCapacity& e) {
    raise("OutOfCapacity", e.what());
  } catch (const Error& e) {
    raise("Error", e.what());
  }
}

}  // namespace

void raise_bad_input(const std::string& message) {
  raise("BadInput", message);
  throw nb::python_error();
}

void poll_signals() {
  if (PyThread_get_thread_ident() != g_main_thread) return;
  with_gil([] {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
}

}  // namespace vitrine::python

NB_MODULE(_engine, m) {
  using namespace vitrine::python;
  nb::set_leak_warnings(false);  // a model may live until the interpreter ends
  nb::register_exception_translator(translate);
  m.def(
      "set_main_thread", [](unsigned long id) { g_main_thread = id; }, nb::arg("id"));
  m.def("version", &vitrine::version);
  bind_model(m);
  bind_stream(m);
  bind_tokenizer(m);
  bind_trainer(m);
}
