// vitrine train: train a model as a config file describes.
#include "train/trainer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/hub.h"
#include "cli/measure.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "train/local_paths.h"

namespace vitrine::cli {
namespace {

struct TrainCommand : Options {
  std::string config, shard = "none";
  bool resume = false;
  double peer_timeout_s = kPeerTimeout_s;
};

std::string line_of(const TrainProgress& p, std::optional<double> left_s) {
  std::string line = fmt::format("step {}/{}  loss {:.4f}  lr {:.2e}  norm {:.3f}  {:.0f} tokens/s", p.step, p.steps,
                                 p.loss, p.lr, p.grad_norm, p.tokens_per_s);
  if (p.val_loss) line += fmt::format("  val {:.4f}", *p.val_loss);
  line += fmt::format("  {:.0f} MB", static_cast<double>(peak_memory()) / 1e6);
  return left_s ? line + fmt::format("  {} left", duration_text(*left_s)) : line;
}

void check_options(const TrainCommand& o) {
  if (o.compute == "int8" || o.compute == "bf16") {
    throw Unsupported("--compute", "training computes in f32, got {}", o.compute);
  }
  if (kv_types(o.kv) != KvTypes()) throw Unsupported("--kv", "training needs f32 keys and values, got {}", o.kv);
}

void train_on(Ranks& ranks, const TrainCommand& o) {
  TrainConfig config = ranks.together([&] { return read_train_config(o.config); });
  if (o.seed) config.train.seed = *o.seed;
  if (!o.tokenizer.empty()) config.data.tokenizer = o.tokenizer;
  ranks.together([&] {
    check_options(o);
    const CleanStop guard;
    PullDisplay display;
    use_local_paths(config, hub_access(o, display));
  });
  TrainRun run;
  run.threads = o.thread_count();
  run.resume = o.resume;
  run.interrupt = &interrupted();
  run.enough = &has_enough();
  run.ranks = &ranks;
  run.shard = shard_named(o.shard);
  run.config_file = o.config;
  run.build = build_name();
  forget_peak_memory();
  LiveLine live;
  // The first step of a run includes loading, so the time left is estimated from the steps after it.
  std::optional<std::int64_t> first;
  std::chrono::steady_clock::time_point first_at;
  run.loaded = stop_cleanly;
  run.tell = [&](const std::string& line) { live.keep(line); };
  run.show_text = [&](const std::string& text) { live.keep("  | " + text); };
  run.show = [&](const TrainProgress& p) {
    const auto now = std::chrono::steady_clock::now();
    std::optional<double> left;
    if (!first) {
      first = p.step, first_at = now;
    } else if (p.step > *first) {
      const double s = std::chrono::duration<double>(now - first_at).count();
      left = s / static_cast<double>(p.step - *first) * static_cast<double>(p.steps - p.step);
    }
    const bool is_due = p.step == p.steps || p.step % std::max<std::int64_t>(config.log.every, 1) == 0;
    live.show(line_of(p, left), is_due);
  };
  if (!ranks.is_first()) run.show = {}, run.show_text = {};
  const TrainResult result = train(config, run);
  if (!ranks.is_first()) return;
  if (o.json) return print_json(train_json(result));
  print(fmt::format("{}: step {}, loss {:.4f}{}\n", result.checkpoint, result.step, result.loss,
                    result.val_loss ? fmt::format(", validation loss {:.4f}", *result.val_loss) : ""));
}

void run_train(const TrainCommand& o) {
  end_early_at_usr1();
  run_on_ranks(o.peer_timeout_s, [&](Ranks& ranks) { train_on(ranks, o); });
}

}  // namespace

void add_train(Command& program) {
  const auto [command, o] =
      new_command<TrainCommand>(program, "train", "Train a model from random weights or from a checkpoint");
  command.add_option("CONFIG", o->config, "A .toml file; docs/training.md lists its keys")->required();
  command.add_flag("--resume", o->resume, "Continue from the last checkpoint in the run's folder, with the same bits");
  add_choice(command, "--shard", o->shard, std::vector<std::string>(std::begin(kShardNames), std::end(kShardNames)),
             "What each rank of several keeps only for its part of the parameters: nothing, the optimizer's "
             "moments, also the gradients, or also the weights");
  add_peer_timeout(command, o->peer_timeout_s);
  finish_command(
      command, o, run_train,
      "Ctrl-C saves a checkpoint first; --resume continues from it. SIGUSR1 saves one and ends with status 0.\n"
      "mpirun -n 4 vitrine train … computes the same bits on four ranks. vitrine plot draws the curves.\n"
      "Example: vitrine train config.toml");
}

}  // namespace vitrine::cli
