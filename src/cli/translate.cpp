// vitrine translate: what an encoder–decoder writes for each of many texts.
#include <algorithm>
#include <deque>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/search.h"
#include "cli/texts.h"
#include "generate/choose_sampling.h"

namespace vitrine::cli {
namespace {

struct TranslateOptions : Options, SearchOptions {
  std::int64_t batch = 32;
  bool lines = false;
};

constexpr std::size_t kBatchesAtOnce = 16;      // sorted by length together
constexpr std::int64_t kRowsPerStep = 1 << 12;  // of sources

std::string answer(const TranslateOptions& o, const Session& session, const GenerateRequest& request,
                   const GenerateResult& result) {
  if (!o.json) {
    std::string text = session.tokenizer ? result.text : fmt::format("{}", fmt::join(result.ids, ","));
    std::replace(text.begin(), text.end(), '\n', ' ');  // a line for a line
    return text + "\n";
  }
  Json object = {{"text", result.text},
                 {"ids", result.ids},
                 {"source_ids", request.source},
                 {"finish_reason", name_of(result.finish_reason)}};
  add_hypotheses(result, object);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Throws BadInput for a source that exceeds the context, naming its line.
void check_length(const GenerateRequest& request, const Session& session, std::int64_t number) {
  const std::int64_t most = session.checkpoint.model->config().encoder->max_seq_len;
  if (static_cast<std::int64_t>(request.source.size()) <= most) return;
  throw BadInput(fmt::format("line {}", number), "the text has {} tokens, the encoder's context is {}",
                 request.source.size(), most);
}

/// Runs requests in the order of their sources' lengths, at most `batch` at a time, and prints the answers in order.
void run_requests(const GenerateContext& context, const TranslateOptions& o, const Session& session,
                  const std::vector<GenerateRequest>& requests) {
  std::deque<std::size_t> waiting;
  std::vector<std::string> answers(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i].source.empty()) {
      waiting.push_back(i);
    } else {  // there is nothing to translate
      GenerateResult nothing;
      nothing.finish_reason = FinishReason::stop;
      answers[i] = answer(o, session, requests[i], nothing);
    }
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [&](std::size_t a, std::size_t b) { return requests[a].source.size() > requests[b].source.size(); });
  Engine engine(context);
  std::map<std::uint64_t, std::size_t> running;  // by the engine's ids
  std::size_t printed = 0;
  while (printed < answers.size()) {
    while (!waiting.empty() && static_cast<std::int64_t>(running.size()) < o.batch) {
      running[engine.add(requests[waiting.front()])] = waiting.front();
      waiting.pop_front();
    }
    for (SequenceStep& step : engine.step(kRowsPerStep).sequences) {
      if (step.error) std::rethrow_exception(step.error);
      if (!step.result) continue;
      const std::size_t i = running.at(step.id);
      running.erase(step.id);
      answers[i] = answer(o, session, requests[i], *step.result);
    }
    for (; printed < answers.size() && !answers[printed].empty(); ++printed) print(answers[printed]);
  }
}

void run_translate(const TranslateOptions& o) {
  if (o.positionals == 0 && !o.lines) throw CLI::RequiredError("TEXT");
  const bool has_model = o.positionals == 2 || (o.lines && o.positionals == 1);
  const Session session = open_for_texts(o, has_model ? o.first : "", !o.lines);
  if (!session.has_encoder()) throw BadInput("translate", "the model has no encoder; generate continues a text");
  TextReader texts(o.lines ? "-" : o.positionals == 2 ? o.second : o.first, false);
  const GenerateContext context = session.context(o);
  const std::size_t at_once = static_cast<std::size_t>(o.batch) * kBatchesAtOnce;
  std::int64_t number = 0;
  for (auto lines = texts.next(at_once); !lines.empty(); lines = texts.next(at_once)) {
    std::vector<GenerateRequest> requests;
    for (const std::string& line : lines) {
      GenerateRequest request;
      set_texts(session, o, ids_of_line(session, o, o.lines, line, ++number), request);
      check_length(request, session, number);
      set_search(session, o, false, request);
      request.sampling.temperature = 0;
      request.sampling.repeat_penalty = session.checkpoint.generation.repeat_penalty.value_or(1);
      requests.push_back(std::move(request));
    }
    run_requests(context, o, session, requests);
  }
}

}  // namespace

void add_translate(CLI::App& program) {
  CLI::App& command =
      *program.add_subcommand("translate", "Show what an encoder–decoder writes for each line of a text");
  const auto o = std::make_shared<TranslateOptions>();
  add_text(command, *o, "A Hugging Face folder");
  add_search(command, *o);
  add_number<std::int64_t>(command, "--batch", o->batch, "Texts to translate at once (default: 32)", 1, 4096);
  command.add_flag("--lines", o->lines, "Read a JSON string, or a list of ids, from each line of stdin");
  finish_command(command, o, run_translate,
                 "The answers come in the order of the lines, one line each; with --json one object each. They do not "
                 "depend on --batch.\n"
                 "Example: vitrine translate t5/ --lines --beam 4 --max-tokens 8 < ids.jsonl");
}

}  // namespace vitrine::cli
