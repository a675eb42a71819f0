// vitrine grad: compute the loss over a text and its gradient with respect to every parameter, or, with --adapter, to
// the matrices of the adapter.
#include <algorithm>

#include "base/error.h"
#include "base/file_writer.h"
#include "checkpoint/adapters/writer.h"
#include "checkpoint/gradients_file.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace vitrine::cli {
namespace {

struct GradOptions : Options {
  std::string out;
};

void run_grad(const GradOptions& o) {
  const Session session = open_learning_session(o, "grad");
  {
    const CleanStop guard;
    const FileWriter place(o.out);  // fails before the work if the file cannot be written
  }
  const Model& model = *session.checkpoint.model;
  if (session.adapters.size() > 1) {
    throw Unsupported("--adapter", "gradients are those of one adapter, got {}", session.adapters.size());
  }
  const LoadedAdapter* const adapter = session.adapters.empty() ? nullptr : session.adapters.front().get();
  Gradients gradients;
  if (adapter != nullptr) {
    for_each_matrix(*adapter, [&](const Param& param) { gradients.add(param); });
  } else {
    for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape&) {
      if (!is_constant(model.config(), name)) gradients.add(param);
    });
  }

  model.refuse_placeholders(session.ids);
  Arena arena;
  Pass pass = session.make_pass(session.context(o), arena);
  const double mean = backward_from_targets(session, pass, gradients);
  stop_cleanly();
  {
    ProgressBar bar("writing " + o.out);
    if (adapter != nullptr) {
      write_adapter_gradients(o.out, *adapter, session.checkpoint, gradients);
    } else {
      write_gradients(o.out, session.checkpoint, gradients, *session.pool, bar.reporter());
    }
  }

  if (o.json) {
    Json object = {{"loss", mean}, {"ids", session.ids}, {"out", o.out}};
    if (session.has_encoder()) object["target_ids"] = session.target;
    return print_json(object);
  }
  const auto n = session.targets.size() -
                 static_cast<std::size_t>(std::count(session.targets.begin(), session.targets.end(), kNoLabel));
  print(fmt::format("loss {:.6f} nats per token over {} predictions; gradients written to {}\n", mean, n, o.out));
}

}  // namespace

void add_grad(Command& program) {
  const auto [command, o] = new_command<GradOptions>(
      program, "grad", "Write the gradient of the loss with respect to every parameter to a .safetensors file");
  add_model_and_text(command, *o);
  add_second_input(command, *o);
  add_labels(command, *o);
  command.add_option("--out", o->out, "The file to write: float32, with the names and shapes of the checkpoint")
      ->required();
  finish_command(command, o, run_grad, "Example: vitrine grad gpt2/ --ids 464,3139,286 --out gradients.safetensors");
}

}  // namespace vitrine::cli
