// vitrine logits: write the logits of every position of a text to a NumPy file.
#include "checkpoint/npy.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "generate/score.h"

namespace vitrine::cli {
namespace {

struct LogitsOptions : Options, SplitOptions {
  std::string out;
  std::optional<std::int64_t> chunk;
};

void run_logits(const LogitsOptions& o) {
  const Session session = open_full_session(o);
  const auto n_rows = static_cast<std::int64_t>(session.rows().size());
  const std::int64_t vocab_size = session.checkpoint.model->config().vocab_size;
  stop_cleanly();
  std::optional<NpyWriter> writer;
  if (o.is_first()) writer.emplace(o.out, n_rows, vocab_size);
  const auto add = [&](std::int64_t, const Tensor& logits) {
    if (writer) writer->add(logits);
  };
  GenerateContext context = session.context(o);
  context.chunk = o.chunk.value_or(context.chunk);
  score(context, session.tokens(), add, 0, session.n_padding);
  if (writer) writer->commit();
  if (o.json) {
    Json object = {{"ids", session.ids}, {"shape", {n_rows, vocab_size}}, {"out", o.out}};
    if (session.has_encoder()) object["target_ids"] = session.target;
    return print_json(object);
  }
  print(o.out + ": float32 " + to_string(Shape{n_rows, vocab_size}) + "\n");
}

}  // namespace

void add_logits(Command& program) {
  const auto [command, o] =
      new_command<LogitsOptions>(program, "logits", "Write the logits of every position to a .npy file");
  add_model_and_text(command, *o);
  add_second_input(command, *o);
  command.add_option("--out", o->out, "The file to write: float32 [T, vocab_size]")->required();
  add_number<std::int64_t>(command, "--chunk", o->chunk, option_row("chunk").help(), 1);
  add_split(command, *o);
  finish_command(command, o, run_logits, "Example: vitrine logits gpt2/ --ids 464,3139,286 --out logits.npy");
}

}  // namespace vitrine::cli
