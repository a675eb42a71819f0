// vitrine init: write a checkpoint with random weights.
#include "checkpoint/init.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "base/error.h"
#include "checkpoint/presets.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"

namespace vitrine::cli {
namespace {

struct InitOptions : Options {
  std::string preset, out;
  std::string dtype;
  std::vector<std::string> assignments;
};

/// The type in --dtype, else the type in the config (f32, or bf16 for any other type), else f32.
DType dtype_of(const InitOptions& o, const Json& config) {
  if (!o.dtype.empty()) return o.dtype == "f32" ? DType::f32 : DType::bf16;
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto it = config.find(key);
    if (it != config.end() && it->is_string()) return *it == "float32" ? DType::f32 : DType::bf16;
  }
  return DType::f32;
}

bool is_preset(const std::string& name) {
  return std::any_of(all_presets().begin(), all_presets().end(), [&](const Preset& p) { return p.name == name; });
}

void run_init(const InitOptions& o) {
  std::error_code error;
  if (!is_preset(o.preset) && is_preset(o.out) && !std::filesystem::exists(o.preset, error)) {
    throw BadInput(o.preset, "no such preset or config.json; PRESET comes first, then OUT");
  }
  Json config = preset_or_config(o.preset);
  set_config_keys(config, o.assignments, o.preset);
  const DType dtype = dtype_of(o, config);
  const std::uint64_t seed = o.seed ? *o.seed : std::random_device{}();
  ThreadPool pool(o.thread_count());
  std::int64_t n_params = 0;
  stop_cleanly();
  {
    ProgressBar bar("writing " + o.out);
    n_params = init_checkpoint(config, o.preset, o.out, dtype, seed, pool, bar.reporter());
  }
  const std::int64_t bytes = n_params * size_of(dtype);
  if (o.json) {
    return print_json(
        {{"out", o.out}, {"params", n_params}, {"bytes", bytes}, {"dtype", name_of(dtype)}, {"seed", seed}});
  }
  print(fmt::format("{}: {} parameters, {}, {:.1f} MB, seed {}\n", o.out, grouped(n_params), name_of(dtype),
                    static_cast<double>(bytes) / 1e6, seed));
}

std::string preset_names() {
  std::string names;
  for (const Preset& preset : all_presets()) names += (names.empty() ? "" : ", ") + preset.name;
  return names;
}

}  // namespace

void add_init(Command& program) {
  const auto [command, o] = new_command<InitOptions>(program, "init", "Write a checkpoint with random weights");
  command.add_option("PRESET", o->preset, "A preset, or the path of a config.json")->required()->type_name("");
  command.add_option("OUT", o->out, "The folder to create")->required()->type_name("");
  add_choice(command, "--dtype", o->dtype, {"f32", "bf16"},
             "Type of the weights: f32 or bf16 (default: the type in the config)");
  add_list(command, "--set", o->assignments,
           "Override a key of the config: d_model, n_layers, n_heads, n_kv_heads, head_dim, d_ff, vocab_size, "
           "max_seq_len, or a key of config.json; may be given several times");
  finish_command(command, o, run_init,
                 "Presets: " + preset_names() +
                     ".\nExample: vitrine init gemma-2-2b tiny/ --set n_layers=2 --set d_model=64 --seed 1");
}

}  // namespace vitrine::cli
