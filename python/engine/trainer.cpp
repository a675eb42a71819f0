// vitrine._engine.Trainer: a run, step by step.
#include <optional>

#include "engine.h"

namespace vitrine::python {
namespace {

/// A run that one call at a time uses.
class Run {
 public:
  explicit Run(TrainingRun run) : run_(std::move(run)) {}

  std::optional<TrainProgress> step() {
    const InUse in_use(flag_, "train");
    const GilReleased free;
    return run_.step();
  }
  TrainResult finish() {
    const InUse in_use(flag_, "train");
    const GilReleased free;
    return run_.finish();
  }
  LanguageModel model() const { return run_.model(); }

 private:
  TrainingRun run_;
  std::atomic_flag flag_;
};

void open_run(Run* place, const std::string& config, bool is_json, int threads, bool resume,
              std::optional<std::uint64_t> seed, const std::string& tokenizer, const nb::object& message) {
  TrainOptions options;
  options.threads = threads;
  options.resume = resume;
  options.seed = seed;
  options.tokenizer = tokenizer;
  options.poll = poll_signals;
  if (!message.is_none()) {
    options.message = [function = shared(message)](const std::string& line) {
      with_gil([&] { (*function)(text_of(line)); });
    };
  }
  const GilReleased free;
  new (place) Run(
      watched([=] { return is_json ? TrainingRun::of_json(config, options) : TrainingRun::open(config, options); }));
}

/// (step, steps, loss, lr, grad_norm, tokens_per_s, val_loss), or None at the end.
nb::object step(Run& run) {
  const std::optional<TrainProgress> done = run.step();
  if (!done) return nb::none();
  return nb::make_tuple(done->step, done->steps, done->loss, done->lr, done->grad_norm, done->tokens_per_s,
                        done->val_loss);
}

/// (step, loss, val_loss, checkpoint)
nb::tuple finish(Run& run) {
  const TrainResult result = run.finish();
  return nb::make_tuple(result.step, result.loss, result.val_loss, result.checkpoint);
}

}  // namespace

void bind_trainer(nb::module_& m) {
  using nb::literals::operator""_a;
  nb::class_<Run>(m, "Trainer")
      .def("__init__", &open_run, "config"_a, "is_json"_a, "threads"_a, "resume"_a, "seed"_a.none(), "tokenizer"_a,
           "message"_a.none())
      .def("step", &step)
      .def("finish", &finish)
      .def("model", &Run::model);
}

}  // namespace vitrine::python
