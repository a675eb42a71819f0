// vitrine eval: measure how well a model predicts the text of a file.
#include <fmt/format.h>

#include <numbers>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/math.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "generate/evaluate.h"

namespace vitrine::cli {
namespace {

struct EvalOptions : Options {
  EvalConfig config;
};

/// The tokens of the text without BOS, which begins every window instead.
std::vector<std::int32_t> text_ids(const Session& session, const std::string& path, SpecialTokens policy) {
  const auto file = MappedFile::open(path);
  std::vector<std::int32_t> ids = session.tokenizer->encode(file->text(), policy);
  const bool begins_with_bos = !ids.empty() && session.bos() && ids.front() == *session.bos();
  if (policy == SpecialTokens::apply && begins_with_bos) ids.erase(ids.begin());
  return ids;
}

void run_eval(const EvalOptions& o) {
  if (o.positionals == 0) throw CLI::RequiredError("FILE");
  const bool has_model = o.positionals == 2;
  const Session session = open_model(o, has_model ? o.first : "", true);
  const SpecialTokens policy = o.no_special ? SpecialTokens::none : SpecialTokens::apply;
  const std::vector<std::int32_t> ids = text_ids(session, has_model ? o.second : o.first, policy);
  EvalConfig config = o.config;
  if (!o.no_special) config.bos = session.bos();

  Evaluation result;
  {
    ProgressBar bar("eval");
    result = evaluate(session.context(o), ids, config, bar.reporter());
  }
  const double perplexity = math::exp(result.loss());
  const double bits_per_byte = result.nats / std::numbers::ln2 / static_cast<double>(result.bytes);
  if (o.json) {
    return print_json({{"loss", result.loss()},
                       {"perplexity", perplexity},
                       {"bits_per_byte", bits_per_byte},
                       {"tokens", result.tokens},
                       {"bytes", result.bytes},
                       {"windows", result.windows},
                       {"window", result.window},
                       {"stride", result.stride},
                       {"bos", config.bos ? Json(*config.bos) : Json(nullptr)}});
  }
  print(
      fmt::format("loss           {:.6f} nats per token\nperplexity     {:.4f}\nbits per byte  {:.6f}\n"
                  "over           {} tokens, {} bytes, {} windows of {} tokens, stride {}, {}\n",
                  result.loss(), perplexity, bits_per_byte, grouped(result.tokens), grouped(result.bytes),
                  grouped(result.windows), result.window, result.stride,
                  config.bos ? fmt::format("each beginning with BOS ({})", *config.bos) : "without BOS"));
}

}  // namespace

void add_eval(CLI::App& program) {
  CLI::App& command =
      *program.add_subcommand("eval", "Compute cross-entropy, perplexity and bits per byte over a file");
  const auto o = std::make_shared<EvalOptions>();
  add_positionals(command, *o, "A Hugging Face folder, a .gguf or a llama2.c .bin", "FILE",
                  "The text file; a single positional is FILE");
  add_number<std::int64_t>(command, "--window", o->config.window,
                           "Tokens per window, including BOS (default: the model's context)", 2);
  add_number<std::int64_t>(command, "--stride", o->config.stride,
                           "Tokens of text between the starts of windows (default: windows do not overlap)", 1);
  finish_command(
      command, o, run_eval,
      "Each window begins with BOS if the model has one (not with --no-special). Each token counts once, in the first\n"
      "window that contains it, unless nothing precedes it there.\n"
      "Example: vitrine eval stories260K.bin story.txt --tokenizer tok512.bin");
}

}  // namespace vitrine::cli
