// The binding of vitrine.h: what its files share. Calls release the GIL; callbacks and conversions hold it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "vitrine/vitrine.h"

namespace vitrine::python {

namespace nb = nanobind;

using Floats = nb::ndarray<nb::numpy, float>;
using Ids = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// An array that owns `values`, without a copy.
nb::object array_of(std::vector<float> values, const std::vector<std::int64_t>& shape);
/// An array of new, uninitialized memory, whose address is put into `memory`.
nb::object new_array(std::span<const std::int64_t> shape, float*& memory);
nb::object array_of(const std::vector<std::int32_t>& ids);
std::vector<std::int32_t> ids_of(const Ids& ids);
/// Text as Python has it; bytes that are not UTF-8 become U+FFFD.
nb::object text_of(const std::string& bytes);

/// A text, or ids.
Prompt prompt_of(const nb::object& prompt);

/// Looks for signals on Python's main thread, such as Ctrl-C. Throws the exception of a handler.
void poll_signals();

/// A Watch whose function is `find`: it returns, for the name of a site, the list of the functions to call with
/// (value, site) and the site; each returns the value to go on with, or None. `sites` are globs. None: no watch.
Watch watch_of(const nb::object& find, std::vector<std::string> sites);

void bind_model(nb::module_& m);
void bind_batch(nb::class_<LanguageModel>& model);
void bind_tokenizer(nb::module_& m);
void bind_trainer(nb::module_& m);

}  // namespace vitrine::python
