// vitrine generate: continue a text.
#include <unistd.h>

#include <random>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sampling.h"
#include "cli/search.h"
#include "generate/choose_sampling.h"
#include "generate/generator.h"
#include "report/results.h"

namespace vitrine::cli {
namespace {

struct GenerateOptions : Options, SearchOptions, SplitOptions {
  SamplingOverrides sampling;
  std::vector<std::string> stop_strings;
  int n_logprobs = 0;
};

void run_generate(const GenerateOptions& o) {
  const Session session = open_session(o);
  GenerateRequest request;
  choose_texts(o.prefix, session.checkpoint, session.tokenizer.get(), session.ids, request);
  SamplingChoice sampling = choose_sampling(o.sampling, session.checkpoint.generation);
  set_search(session, o, wants_to_sample(o.sampling), request);
  if (request.beam.n_beams > 1 && !wants_to_sample(o.sampling)) sampling.config.temperature = 0;
  request.sampling = sampling.config;
  request.seed = o.seed ? *o.seed : std::random_device{}();
  request.stop_strings = o.stop_strings;
  request.n_logprobs = o.n_logprobs;

  if (!sampling.from_checkpoint.empty() && !o.json && is_terminal(STDERR_FILENO)) {
    const SamplingConfig& c = sampling.config;
    note(fmt::format(
        "sampling with temperature {}, top-k {}, top-p {}, min-p {}, repeat penalty {} (from "
        "generation_config.json: {})",
        c.temperature, c.top_k, c.top_p, c.min_p, c.repeat_penalty, fmt::join(sampling.from_checkpoint, ", ")));
  }
  StreamText stream;
  if (!o.json) stream = [](std::size_t, const std::string& text) { print(text); };
  GenerateTimings timings;
  const GenerateResult result = generate(session.context(o), {&request, 1}, stream, &timings)[0];
  if (!o.json) {
    if (!session.tokenizer) print(fmt::format("{}", fmt::join(result.ids, ",")));
    if (!session.tokenizer || is_terminal(STDOUT_FILENO)) print("\n");
    return;
  }
  print_json(generate_json(request, sampling, result, timings, session.tokenizer.get()));
}

}  // namespace

void add_generate(CLI::App& program) {
  CLI::App& command = *program.add_subcommand(
      "generate",
      "Continue a text, or write what an encoder–decoder makes of it, printing tokens as they are generated");
  const auto o = std::make_shared<GenerateOptions>();
  add_model_and_text(command, *o);
  add_search(command, *o);
  add_sampling(command, o->sampling);
  add_list(command, "--stop", o->stop_strings, "Stop before this text; may be given several times");
  add_number<int>(command, "--logprobs", o->n_logprobs,
                  "With --json: add the log-probability of each token and of the N most likely ones", 0, 1 << 20);
  add_split(command, *o);
  finish_command(command, o, run_generate,
                 "Sampling applies the repeat penalty, temperature, top-k, top-p and min-p, in this order.\n"
                 "Example: vitrine generate stories260K.bin \"Once upon a time\" --tokenizer tok512.bin --seed 7");
}

}  // namespace vitrine::cli
