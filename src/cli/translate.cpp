// vitrine translate: what an encoder–decoder writes for each of many texts.
#include <algorithm>
#include <deque>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/lines.h"
#include "cli/search.h"
#include "generate/choose_sampling.h"

namespace vitrine::cli {
namespace {

struct TranslateOptions : Options, SearchOptions {
  std::int64_t batch = 32;
  bool lines = false;
};

constexpr std::size_t kBatchesAtOnce = 16;      // sorted by length together
constexpr std::int64_t kRowsPerStep = 1 << 12;  // of sources

/// Lines of stdin, or one text.
class Texts {
 public:
  explicit Texts(const std::string& text) : from_stdin_(text == "-") {
    if (!from_stdin_) input_ = text + "\n";
  }
  /// At most `most` texts; none at the end. Waits for at least one.
  std::vector<std::string> next(std::size_t most) {
    std::vector<std::string> texts;
    while (texts.size() < most) {
      const std::size_t end = input_.find('\n', at_);
      if (end != std::string::npos) {
        texts.push_back(input_.substr(at_, end - at_));
        at_ = end + 1;
        continue;
      }
      input_.erase(0, std::exchange(at_, 0));
      if (from_stdin_ && read_stdin(input_)) continue;
      if (!input_.empty()) texts.push_back(std::exchange(input_, ""));
      break;
    }
    return texts;
  }

 private:
  bool from_stdin_;
  std::string input_;
  std::size_t at_ = 0;
};

/// The ids of a line: those of its text; with --lines, of the text or the ids that it is as JSON.
std::vector<std::int32_t> ids_of(const Session& session, const TranslateOptions& o, const std::string& line,
                                 std::int64_t number) {
  const auto encode = [&](const std::string& text) {
    if (session.tokenizer == nullptr) throw BadInput("TEXT", "the model has no tokenizer: give ids with --lines");
    return session.tokenizer->encode(text, o.no_special ? SpecialTokens::none : SpecialTokens::apply);
  };
  if (!o.lines) return encode(line);
  const Json json = parse_json(line, fmt::format("line {}", number));
  if (json.is_string()) return encode(json.get<std::string>());
  std::vector<std::int32_t> ids;
  const auto is_id = [](const Json& id) {
    return id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max();
  };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_id)) {
    throw BadInput(fmt::format("line {}", number), "expected a JSON string or a list of ids");
  }
  for (const Json& id : json) ids.push_back(id.get<std::int32_t>());
  return ids;
}

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

/// Runs requests in the order of their sources' lengths, at most `batch` at a time, and prints the answers in order.
void run_requests(const GenerateContext& context, const TranslateOptions& o, const Session& session,
                  const std::vector<GenerateRequest>& requests) {
  std::deque<std::size_t> waiting;
  for (std::size_t i = 0; i < requests.size(); ++i) waiting.push_back(i);
  std::stable_sort(waiting.begin(), waiting.end(),
                   [&](std::size_t a, std::size_t b) { return requests[a].source.size() > requests[b].source.size(); });
  Engine engine(context);
  std::map<std::uint64_t, std::size_t> running;  // by the engine's ids
  std::vector<std::string> answers(requests.size());
  std::size_t printed = 0;
  while (!waiting.empty() || !engine.empty()) {
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
  const Session session = open_model(o, has_model ? o.first : "", !o.lines);
  if (!session.has_encoder()) throw BadInput("translate", "the model has no encoder; generate continues a text");
  Texts texts(o.lines ? "-" : o.positionals == 2 ? o.second : o.first);
  const GenerateContext context = session.context(o);
  const std::size_t at_once = static_cast<std::size_t>(o.batch) * kBatchesAtOnce;
  std::int64_t number = 0;
  for (auto lines = texts.next(at_once); !lines.empty(); lines = texts.next(at_once)) {
    std::vector<GenerateRequest> requests;
    for (const std::string& line : lines) {
      GenerateRequest request;
      set_texts(session, o, ids_of(session, o, line, ++number), request);
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
                 "Example: vitrine translate opus-mt-de-en/ - --beam 4 < german.txt > english.txt");
}

}  // namespace vitrine::cli
