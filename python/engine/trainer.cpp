// vitrine._engine.Trainer: a run, step by step.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>

#include "engine.h"

namespace vitrine::python {
namespace {

TrainingRun open(const std::string& config, bool is_json, int threads, bool resume, std::optional<std::uint64_t> seed,
                 const std::string& tokenizer, const nb::object& message) {
  TrainOptions options;
  options.threads = threads;
  options.resume = resume;
  options.seed = seed;
  options.tokenizer = tokenizer;
  options.poll = poll_signals;
  if (!message.is_none()) {
    const std::shared_ptr<nb::object> function(new nb::object(message), [](nb::object* p) {
      const nb::gil_scoped_acquire gil;
      delete p;
    });
    options.message = [function](const std::string& line) {
      const nb::gil_scoped_acquire gil;
      (*function)(text_of(line));
    };
  }
  const nb::gil_scoped_release free;
  return is_json ? TrainingRun::of_json(config, options) : TrainingRun::open(config, options);
}

nb::object or_none(const std::optional<double>& value) { return value ? nb::cast(*value) : nb::none(); }

/// (step, steps, loss, lr, grad_norm, tokens_per_s, val_loss), or None at the end.
nb::object step(TrainingRun& run) {
  std::optional<TrainProgress> done;
  {
    const nb::gil_scoped_release free;
    done = run.step();
  }
  if (!done) return nb::none();
  return nb::make_tuple(done->step, done->steps, done->loss, done->lr, done->grad_norm, done->tokens_per_s,
                        or_none(done->val_loss));
}

/// (step, loss, val_loss, checkpoint)
nb::tuple finish(TrainingRun& run) {
  TrainResult result;
  {
    const nb::gil_scoped_release free;
    result = run.finish();
  }
  return nb::make_tuple(result.step, result.loss, or_none(result.val_loss), result.checkpoint);
}

}  // namespace

void bind_trainer(nb::module_& m) {
  using nb::literals::operator""_a;
  nb::class_<TrainingRun>(m, "Trainer")
      .def_static("open", &open, "config"_a, "is_json"_a, "threads"_a, "resume"_a, "seed"_a.none(), "tokenizer"_a,
                  "message"_a.none())
      .def("step", &step)
      .def("finish", &finish)
      .def("model", &TrainingRun::model);
}

}  // namespace vitrine::python
