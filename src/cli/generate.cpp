// vitrine generate: continue a text.
#include <unistd.h>

#include <algorithm>
#include <random>

#include "cli/commands.h"
#include "cli/generate_options.h"
#include "cli/output.h"
#include "cli/probe_options.h"
#include "cli/speculation_options.h"
#include "cli/state_options.h"
#include "cli/store_options.h"
#include "generate/generator.h"
#include "inspect/frozen_sites.h"
#include "inspect/probe_values.h"
#include "inspect/sequence_recorder.h"
#include "report/results.h"

namespace vitrine::cli {
namespace {

struct GenerateCommand : Options, SplitOptions, SpeculationOptions, StoreOptions, ProbeOptions {
  GenerateOptions generation;
  std::vector<std::string> writes, frozen;
};

/// Lets a request begin with a state file, and keeps its cache.
void set_cache(const GenerateContext& context, const StateFiles& files, GenerateRequest& request) {
  const std::int64_t n_more = std::ssize(request.prompt) + std::max<std::int64_t>(0, request.max_tokens - 1);
  request.cache = files.open(context, n_more);
  request.continues_cache = true;
}

/// What cannot use the blocks of --cache.
void check_cache(const GenerateOptions& options, const GenerateRequest& request) {
  if (request.beam.n_beams > 1) throw Unsupported("--cache", "a search has several texts: use --beam 1");
  if (options.state) throw Unsupported("--cache", "--state continues a text whose ids are not known");
}

void run_generate(const GenerateCommand& given) {
  GenerateCommand o = given;
  GenerateOptions options = o.generation;
  o.continues = options.state.has_value();
  if (options.suffix && options.state)
    throw UsageError("--suffix", "--state continues a text, which has nothing after it");
  o.suffix = options.suffix;
  Session session = open_session(o);
  open_probes(o, o, session);
  options.seed = o.seed ? *o.seed : std::random_device{}();
  std::vector<std::string> from_checkpoint;
  GenerateRequest request = make_request(session.defaults(), session.ids, options, &from_checkpoint);
  if (!from_checkpoint.empty() && !o.json && is_terminal(STDERR_FILENO)) {
    note(fmt::format("sampling with {} (from generation_config.json: {})", sampling_text(request.sampling),
                     fmt::join(from_checkpoint, ", ")));
  }
  GenerateContext context = session.context(o);
  StateFiles files(o, session, options.state, options.save_state);
  if (files.any() && request.beam.n_beams > 1) {
    throw Unsupported(options.state ? "--state" : "--save-state", "a search has several texts: use --beam 1");
  }
  if (files.any()) set_cache(context, files, request);
  if (!o.store_folder.empty()) check_cache(options, request);
  std::unique_ptr<const Tokenizer> of_stops;  // ids are answered by ids; only the texts that stop need a tokenizer
  if (!request.stop_strings.empty() && context.tokenizer == nullptr && !session.tokenizer_path.empty()) {
    of_stops = load_tokenizer(session.tokenizer_path, o.tokenizer_options);
    context.tokenizer = of_stops.get();
  }
  if (!o.frozen.empty() && o.writes.empty())
    throw UsageError("--freeze", "give --set, too: without writes it has no effect");
  std::shared_ptr<SequenceRecorder> recorder;
  const bool reads_probes = has_probes(session.applied.dictionaries);
  if (reads_probes && !o.json) throw UsageError("--probe", "give --json, too: it has the logits of the probes");
  if (!o.writes.empty() || reads_probes) {
    if (o.ranks != nullptr) throw Unsupported("--split", "expected a generation that writes no sites (--set)");
    std::vector<SiteWrite> writes;
    for (const std::string& text : o.writes) writes.push_back(parse_site_write(text));
    std::vector<std::string> globs;
    if (reads_probes) globs.emplace_back(kProbeGlob);
    recorder = std::make_shared<SequenceRecorder>(*session.checkpoint.model, globs, std::move(writes),
                                                  session.applied.dictionaries);
    request.taps = recorder;
    if (!o.frozen.empty()) {
      const std::int64_t n_fed = std::ssize(request.prompt) + std::max<std::int64_t>(0, request.max_tokens - 1);
      CleanRun clean(context, o.frozen, std::min(session.checkpoint.model->config().max_seq_len, n_fed));
      request.taps = std::make_shared<FrozenSequence>(std::move(clean), request.taps);
    }
  }
  OpenedSpeculation speculation(o, o, session, "lookup");
  context.speculation = speculation.get();
  const OpenedStore store(o, "cache", session, context);
  StreamText stream;
  if (!o.json && session.tokenizer) stream = [](std::size_t, const std::string& text) { print(text); };
  GenerateTimings timings;
  const GenerateResult result = generate(context, {&request, 1}, stream, &timings)[0];
  if (files.any()) files.save(context, *request.cache);
  if (!o.json) {
    if (!session.tokenizer) print(fmt::format("{}", fmt::join(result.ids, ",")));
    if (!session.tokenizer || is_terminal(STDOUT_FILENO)) print("\n");
    return;
  }
  Json json = generate_json(request, from_checkpoint, result, timings, session.tokenizer.get());
  if (reads_probes) json["probes"] = probe_values_json(recorder->recorded());
  json["speculation"] = speculation_json(speculation.get(), result);
  print_json(json);
}

}  // namespace

void add_generate(Command& program) {
  const auto [command, o] = new_command<GenerateCommand>(
      program, "generate",
      "Continue a text, or write what an encoder–decoder makes of it, printing tokens as they are generated");
  add_model_and_text(command, *o);
  add_dictionaries(command, *o);
  add_probes(command, *o);
  add_list(
      command, "--set", o->writes,
      "Modify a site at all tokens of the prompt and of the text: 'SITE[index]=value', also *= and +=, where tokens "
      "are counted from the first of the prompt; may be given several times");
  add_list(command, "--freeze", o->frozen,
           "A glob of sites that keep their values of the run without --set; may be given several times");
  add_generate_options(command, kInGenerate, o->generation);
  add_speculation(command, *o, *o, "lookup");
  add_store(command, *o, "cache");
  add_split(command, *o);
  finish_command(command, o, run_generate,
                 "Sampling applies the penalties, DRY, temperature, top-nσ, top-k, typical-p, top-p, min-p and XTC,\n"
                 "in this order.\n"
                 "Example: vitrine generate stories260K.bin \"Once upon a time\" --tokenizer tok512.bin --seed 7");
}

}  // namespace vitrine::cli
