// vitrine answer: the part of a text that answers a question.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/windowed_texts.h"
#include "generate/answer.h"

namespace vitrine::cli {
namespace {

struct AnswerArguments : TextInputOptions {
  std::optional<std::string> text, question;
  AnswerOptions answers;
  std::optional<std::int64_t> top;
};

Json json_of(const TextAnswer& answer) {
  return {{"answer", answer.answer},
          {"score", static_cast<float>(answer.score)},
          {"start", answer.place.begin},
          {"end", answer.place.end}};
}

void show(const AnswerArguments& o, const std::vector<TextAnswer>& answers) {
  const TextAnswer best = answers.empty() ? TextAnswer() : answers.front();
  if (o.json) {
    Json object = json_of(best);
    if (o.top) {
      object["answers"] = Json::array();
      for (const TextAnswer& answer : answers) object["answers"].push_back(json_of(answer));
    }
    return print_json(object);
  }
  if (o.lines) return print(fmt::format("{}\t{:.6f}\n", in_quotes(best.answer), best.score));
  Table table(
      {{"score", Table::Align::right}, {"start", Table::Align::right}, {"end", Table::Align::right}, {"answer"}});
  for (const TextAnswer& a : answers) {
    table.add({fmt::format("{:.6f}", a.score), std::to_string(a.place.begin), std::to_string(a.place.end),
               in_quotes(a.answer)});
  }
  print(table.text());
}

/// The question and the text of a line of --lines.
std::pair<std::string, std::string> request_in(const AnswerArguments& o, const Json& line, const std::string& where) {
  if (o.question && line.is_string()) return {*o.question, line.get<std::string>()};
  const auto is_text = [&](const char* key) { return line.contains(key) && line[key].is_string(); };
  if (!line.is_object() || line.size() != 2 || !is_text("question") || !is_text("context")) {
    throw BadInput(where, "expected {{\"question\": TEXT, \"context\": TEXT}}, or with --question a JSON string");
  }
  return {line["question"].get<std::string>(), line["context"].get<std::string>()};
}

void run_answer(const AnswerArguments& o) {
  if (o.text.has_value() == o.lines) throw UsageError("TEXT", "give TEXT or --lines");
  if (o.text && !o.question) throw MissingArgument("--question");
  const Session session = open_for_texts(o, o.model, true);
  head_for(session, TaskHead::Task::answer, "answer", "outputs for where an answer begins and ends");
  stop_cleanly();
  WindowedTexts texts(session, o);
  AnswerOptions options = o.answers;
  options.top = o.top.value_or(1);
  options.reads_class_token = answer_options(session.checkpoint.model->config()).reads_class_token;
  WindowOptions windows = options.windows(texts.most());
  if (o.no_special) windows.policy = SpecialTokens::none;
  const auto add = [&](const std::string& question, const std::string& text, const std::string& where) {
    if (text.empty()) throw BadInput(where, "expected a text that may hold the answer, got an empty one");
    if (question.empty()) throw BadInput(where, "expected a question, got an empty one");
    texts.add(text, question, windows);
  };
  const auto read = [&] {
    texts.read([&](const std::string& text, std::span<const PlacedTexts> own,
                   std::span<const std::vector<float>> outputs) { show(o, answers_of(text, own, outputs, options)); });
  };
  if (o.text) {
    add(*o.question, read_text(*o.text), "TEXT");
    return read();
  }
  for_each_line(
      o,
      [&](const Json& line, const std::string& where) {
        const auto [question, text] = request_in(o, line, where);
        add(question, text, where);
      },
      read);
}

}  // namespace

void add_answer(Command& program) {
  const auto [command, o] =
      new_command<AnswerArguments>(program, "answer", "Show the part of a text that answers a question");
  add_text_inputs(command, *o,
                  "Read {\"question\",\"context\"} from each line of stdin, or with --question a JSON string");
  add_optional(command, "TEXT", o->text, "The text; - reads it from stdin");
  add_optional(command, "--question", o->question, "The question");
  add_number<std::int64_t>(command, "--top", o->top, "Show the N best answers (default: 1)", 1);
  add_number<std::int64_t>(command, "--max-answer", o->answers.max_tokens, "Tokens of an answer at most (default: 15)",
                           1, 1 << 20);
  add_number<std::int64_t>(
      command, "--window", o->answers.window,
      "Tokens that are read at once, the question included (default: 384, or what the model reads)", 2, 1 << 24);
  add_number<std::int64_t>(command, "--stride", o->answers.stride,
                           "Tokens that each window repeats of the one before (default: half a window, at most 128)",
                           0);
  command.add_flag("--may-have-none", o->answers.may_have_none,
                   "An empty answer counts, with the score of the template's first token");
  finish_command(
      command, o, run_answer,
      "Answers are those of the question-answering pipeline of transformers 4: whole words, from a text of "
      "any length. The score\nis the probability of the begin times that of the end. Offsets count the "
      "characters (code points) of the text.\n"
      "Example: vitrine answer squad/ --question \"Where do cats sleep?\" \"Cats sleep on the sofa.\" --json");
}

}  // namespace vitrine::cli
