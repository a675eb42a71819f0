// vitrine quantize: write a model as a GGUF file, with its matrices in the same or a smaller type.
#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/gguf_export.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/tokenizer_keys.h"

namespace vitrine::cli {
namespace {

struct QuantizeOptions : Options {
  std::string model, out, type;
};

DType type_named(const std::string& name) {
  for (std::size_t i = 0; i < kDTypes; ++i) {
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  throw InternalError("--type", "no type {}", name);
}

void run_quantize(const QuantizeOptions& o) {
  std::error_code error;
  if (std::filesystem::equivalent(o.model, o.out, error)) {
    throw BadInput(o.out, "expected a file other than the model itself");
  }
  const Checkpoint checkpoint = load_checkpoint(o.model, {o.allowed_config_keys});
  ThreadPool pool(o.thread_count());
  std::string why_none;
  const GgufKeys tokenizer = tokenizer_keys(o, o.model, checkpoint, why_none);
  GgufExport written;
  stop_cleanly();
  {
    ProgressBar bar("writing " + o.out);
    written = write_gguf(o.out, checkpoint, type_named(o.type), tokenizer, pool, bar.reporter());
  }
  if (!why_none.empty()) note("the file contains no tokenizer: " + why_none);
  const std::int64_t before = stored_bytes(*checkpoint.model);
  if (o.json) {
    return print_json({{"out", o.out},
                       {"type", o.type},
                       {"tensors", written.tensors},
                       {"params", written.elements},
                       {"bytes", written.bytes},
                       {"source_bytes", before},
                       {"tokenizer", why_none.empty()}});
  }
  print(fmt::format("{}: {} tensors, {} parameters, {:.1f} MB (source: {:.1f} MB), {:.2f} bits per parameter\n", o.out,
                    written.tensors, grouped(written.elements), static_cast<double>(written.bytes) / 1e6,
                    static_cast<double>(before) / 1e6,
                    8 * static_cast<double>(written.bytes) / static_cast<double>(written.elements)));
}

}  // namespace

void add_quantize(CLI::App& program) {
  CLI::App& command = *program.add_subcommand("quantize", "Write a model as a GGUF file");
  const auto o = std::make_shared<QuantizeOptions>();
  command.add_option("MODEL", o->model, "A Hugging Face folder, a .gguf or a llama2.c .bin")->required()->type_name("");
  command.add_option("OUT", o->out, "The .gguf file to write")->required()->type_name("");
  command.add_option("--type", o->type, "Type of the matrices: f32, f16, bf16, q8_0 or q4_0")
      ->required()
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0", "q4_0"}));
  finish_command(command, o, run_quantize, "Example: vitrine quantize gpt2/ gpt2-q8_0.gguf --type q8_0");
}

}  // namespace vitrine::cli
