// vitrine._engine.Model: sequences of one length in one pass, forward and backward; parameters by vitrine's names.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "engine.h"

namespace vitrine::python {
namespace {

using Batch = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;

/// Calls function(name, value) with an array of its own. Returns what it returns, an array of as many elements, or no
/// data for None.
Values ask(const nb::object& function, const std::string& name, std::span<const std::int64_t> shape,
           std::span<const float> value) {
  float* copy = nullptr;
  nb::object array = new_array(shape, copy);
  std::memcpy(copy, value.data(), value.size_bytes());
  const nb::object result = function(nb::str(name.c_str(), name.size()), std::move(array));
  if (result.is_none()) return {};
  Values values = nb::cast<Values>(result);
  if (values.size() != value.size()) throw nb::value_error("expected a replacement with as many elements");
  return values;
}

/// The logits `[B · T, V]`, or None. `tap` and `on_gradient` are called with (name, array) and return an array to go on
/// with, or None.
nb::object run(const LanguageModel& model, const Batch& ids, const nb::object& tap, std::vector<std::string> sites,
               bool wants_logits, const nb::object& logit_gradients, const nb::object& on_gradient,
               std::vector<std::string> gradient_sites, std::optional<std::int64_t> start, const nb::object& stream,
               const nb::object& on_stream_gradient) {
  BatchOptions options;
  if (!tap.is_none()) {
    options.watch = {.sites = std::move(sites),
                     .tap = [function = shared(tap)](const std::string& name, std::span<const std::int64_t> shape,
                                                     std::span<const float> value, std::span<float> replacement) {
                       return with_gil([&] {
                         const Values values = ask(*function, name, shape, value);
                         if (!values.is_valid()) return false;
                         std::copy_n(values.data(), values.size(), replacement.data());
                         return true;
                       });
                     }};
  }
  if (!on_gradient.is_none()) {
    options.gradient_sites = std::move(gradient_sites);
    options.on_gradient = [function = shared(on_gradient)](const std::string& name, std::span<float> gradient,
                                                           std::span<const std::int64_t> shape) {
      with_gil([&] {
        const Values values = ask(*function, name, shape, gradient);
        if (values.is_valid()) std::copy_n(values.data(), values.size(), gradient.data());
      });
    };
  }
  Values gradients;
  if (!logit_gradients.is_none()) {
    gradients = nb::cast<Values>(logit_gradients);
    options.logit_gradients = {gradients.data(), gradients.size()};
  }
  Values rows;
  if (start) {
    rows = nb::cast<Values>(stream);
    options.start = start;
    options.stream = {rows.data(), rows.size()};
  }
  if (!on_stream_gradient.is_none()) {
    options.on_stream_gradient = [function = shared(on_stream_gradient)](std::span<const float> gradient) {
      const std::int64_t shape[] = {static_cast<std::int64_t>(gradient.size())};
      with_gil([&] { ask(*function, "stream", shape, gradient); });
    };
  }
  nb::object logits = nb::none();
  if (wants_logits) {
    const std::int64_t shape[] = {static_cast<std::int64_t>(ids.size()), model.vocab_size()};
    float* memory = nullptr;
    logits = new_array(shape, memory);
    options.logits = {memory, static_cast<std::size_t>(shape[0] * shape[1])};
  }
  const GilReleased free;
  model.run({ids.data(), ids.size()}, static_cast<std::int64_t>(ids.shape(0)), options);
  return logits;
}

nb::object parameter(const LanguageModel& model, const std::string& name) {
  NamedValue value;
  {
    const GilReleased free;
    value = model.parameter(name);
  }
  return array_of(std::move(value.values), value.shape);
}

}  // namespace

void bind_batch(nb::class_<LanguageModel>& model) {
  using nb::literals::operator""_a;
  model
      .def("run", &run, "ids"_a, "tap"_a.none(), "sites"_a, "wants_logits"_a, "logit_gradients"_a.none(),
           "on_gradient"_a.none(), "gradient_sites"_a, "start"_a.none(), "stream"_a.none(),
           "on_stream_gradient"_a.none())
      .def("parameter", &parameter, "name"_a);
}

}  // namespace vitrine::python
