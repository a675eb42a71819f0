// vitrine translate: what an encoder–decoder writes for each of many texts.
#include <algorithm>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/generate_options.h"
#include "cli/output.h"
#include "cli/texts.h"
#include "generate/generator.h"

namespace vitrine::cli {
namespace {

struct TranslateOptions : Options {
  GenerateOptions generation;
  std::int64_t batch = 32;
  bool lines = false;
};

constexpr std::size_t kBatchesAtOnce = 16;  // sorted by length together

std::string answer(const TranslateOptions& o, const Session& session, const GenerateRequest& request,
                   const GenerateResult& result) {
  if (!o.json) {
    std::string text = session.tokenizer ? result.text : fmt::format("{}", fmt::join(result.ids, ","));
    return one_line(std::move(text)) + "\n";
  }
  Json object = {{"text", result.text},
                 {"ids", result.ids},
                 {"source_ids", request.source},
                 {"finish_reason", name_of(result.finish_reason)}};
  add_hypotheses(result, object);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Prints the answers in the order of the requests, each as soon as those before it are there.
void run_requests(const GenerateContext& context, const TranslateOptions& o, const Session& session,
                  const std::vector<GenerateRequest>& requests) {
  std::vector<std::string> answers(requests.size());
  std::size_t printed = 0;
  generate_sorted(context, requests, o.batch, [&](std::size_t i, const GenerateResult& result) {
    answers[i] = answer(o, session, requests[i], result);
    for (; printed < answers.size() && !answers[printed].empty(); ++printed) print(answers[printed]);
  });
}

void run_translate(const TranslateOptions& o) {
  if (o.positionals == 0 && !o.lines) throw MissingArgument("TEXT");
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
      const std::vector<std::int32_t> ids = ids_of_line(session, o, o.lines, line, ++number);
      requests.push_back(translation_of(session, o.generation, ids, fmt::format("line {}", number)));
    }
    run_requests(context, o, session, requests);
  }
}

}  // namespace

void add_translate(Command& program) {
  const auto [command, o] = new_command<TranslateOptions>(
      program, "translate", "Show what an encoder–decoder writes for each line of a text");
  add_text(command, *o, "A Hugging Face folder or hf:ORG/NAME");
  o->takes_one_model = [&lines = o->lines] { return lines; };
  add_generate_options(command, kInTranslate, o->generation);
  add_number<std::int64_t>(command, "--batch", o->batch, "Texts to translate at once (default: 32)", 1, 4096);
  command.add_flag("--lines", o->lines, "Read a JSON string, or a list of ids, from each line of stdin");
  add_adapters(command, *o);
  finish_command(command, o, run_translate,
                 "The answers come in the order of the lines, one line each; with --json one object each. They do not "
                 "depend on --batch.\n"
                 "Example: vitrine translate t5/ --lines --beam 4 --max-tokens 8 < ids.jsonl");
}

}  // namespace vitrine::cli
