// vitrine logits: write the logits of every position of a text to a NumPy file.
#include "checkpoint/npy.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/state_options.h"
#include "generate/score.h"

namespace vitrine::cli {
namespace {

struct LogitsOptions : Options, SplitOptions {
  std::string out;
  std::optional<std::int64_t> chunk;
  std::optional<std::string> state, save_state;
};

/// The logits of a text after that of a state file, if there is one.
void score_with_state(const GenerateContext& context, const Session& session, StateFiles& files,
                      const ReceiveRows& receive) {
  if (session.n_padding > 0 || !session.types.empty()) {
    throw Unsupported("--state", "a text with padding or types is read at once, without a state");
  }
  const auto n = static_cast<std::int64_t>(session.ids.size());
  const std::shared_ptr<KvCache> cache = files.open(context, n);
  feed(context, *cache, session.tokens(), 0, receive);
  files.save(context, *cache);
}

void run_logits(const LogitsOptions& given) {
  LogitsOptions o = given;
  o.continues = o.state.has_value();
  const Session session = open_full_session(o);
  const auto n_rows = static_cast<std::int64_t>(session.rows().size());
  const std::int64_t vocab_size = session.checkpoint.model->config().vocab_size;
  stop_cleanly();
  StateFiles files(o, session, o.state, o.save_state);
  std::optional<NpyWriter> writer;
  if (o.is_first()) writer.emplace(o.out, n_rows, vocab_size);
  const auto add = [&](std::int64_t, const Tensor& logits) {
    if (writer) writer->add(logits);
  };
  GenerateContext context = session.context(o);
  context.chunk = o.chunk.value_or(context.chunk);
  if (files.any()) {
    score_with_state(context, session, files, add);
  } else {
    score(context, session.tokens(), add, 0, session.n_padding);
  }
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
  add_dictionaries(command, *o);
  command.add_option("--out", o->out, "The file to write: float32 [T, vocab_size]")->required();
  add_number<std::int64_t>(command, "--chunk", o->chunk, option_row("chunk").help(), 1);
  add_optional(command, "--state", o->state, option_row("state").about);
  add_optional(command, "--save-state", o->save_state, option_row("save_state").about);
  add_split(command, *o);
  finish_command(command, o, run_logits, "Example: vitrine logits gpt2/ --ids 464,3139,286 --out logits.npy");
}

}  // namespace vitrine::cli
