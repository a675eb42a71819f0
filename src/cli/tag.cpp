// vitrine tag: the spans of a text that have a label, such as the names in it.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/windowed_texts.h"
#include "generate/tag.h"

namespace vitrine::cli {
namespace {

struct TagOptions : TextInputOptions {
  std::optional<std::string> text;
  std::string aggregate = "simple";
  std::optional<std::int64_t> stride;
};

Aggregation aggregation_of(const TagOptions& o) {
  const auto names = words(Aggregation());
  return static_cast<Aggregation>(std::find(names.begin(), names.end(), o.aggregate) - names.begin());
}

void show(const TagOptions& o, const std::string& text, const std::vector<TagSpan>& spans) {
  if (o.json) return print_json({{"spans", spans_json(spans)}});
  if (o.lines) {
    std::vector<std::string> words;
    for (const TagSpan& s : spans) words.push_back(fmt::format("{}:{}-{}", s.label, s.place.begin, s.place.end));
    return print(fmt::format("{}\n", fmt::join(words, " ")));
  }
  Table table({{"label"},
               {"score", Table::Align::right},
               {"start", Table::Align::right},
               {"end", Table::Align::right},
               {"text"}});
  const TextCharacters characters(text);
  for (const TagSpan& s : spans) {
    table.add({s.label, fmt::format("{:.6f}", s.score), std::to_string(s.place.begin), std::to_string(s.place.end),
               in_quotes(characters.part(s.place))});
  }
  print(table.text());
}

void run_tag(const TagOptions& o) {
  if (o.text.has_value() == o.lines) throw UsageError("TEXT", "give TEXT or --lines");
  const Aggregation aggregation = aggregation_of(o);
  if (o.stride && aggregation == Aggregation::none) {
    throw UsageError("--stride", "windows that overlap need another --aggregate than none");
  }
  const Session session = open_for_texts(o, o.model, true);
  const TaskHead& head = head_for(session, TaskHead::Task::tag, "tag", "labels of tokens");
  stop_cleanly();
  WindowedTexts texts(session, o);
  const WindowOptions windows{texts.most(), o.stride, o.no_special ? SpecialTokens::none : SpecialTokens::apply};
  const auto read = [&] {
    texts.read(
        [&](const std::string& text, std::span<const PlacedTexts> own, std::span<const std::vector<float>> outputs) {
          show(o, text, spans_of(*session.tokenizer, head, {.aggregation = aggregation}, text, own, outputs));
        });
  };
  if (o.text) {
    texts.add(read_text(*o.text), {}, windows);
    read();
  } else {
    const auto add = [&](const Json& line, const std::string& where) {
      if (!line.is_string()) throw BadInput(where, "expected a JSON string");
      texts.add(line.get<std::string>(), {}, windows);
    };
    for_each_line(o, add, read);
  }
  texts.report_cut();
}

}  // namespace

void add_tag(Command& program) {
  const auto [command, o] = new_command<TagOptions>(program, "tag", "Show the spans of a text that have a label");
  add_text_inputs(command, *o, "Read a text from each line of stdin, a JSON string");
  add_optional(command, "TEXT", o->text, "The text; - reads it from stdin");
  const auto names = words(Aggregation());
  add_choice(
      command, "--aggregate", o->aggregate, {names.begin(), names.end()},
      "What becomes of the labels of tokens. none: each token is a span; simple: adjacent tokens with the same "
      "label are one; first, average, max: and all tokens of a word have the label of its first one, of the mean "
      "of their scores, or of the highest score (default: simple)");
  add_number<std::int64_t>(command, "--stride", o->stride,
                           "Read longer texts in windows, each of which repeats N tokens of the one before", 0);
  finish_command(
      command, o, run_tag,
      "Spans are those of the token-classification pipeline of transformers; those with the label O are left "
      "out. Offsets count\nthe characters (code points) of the text.\n"
      "Example: vitrine tag ner/ \"Ada Lovelace lived in London.\" --aggregate first --json");
}

}  // namespace vitrine::cli
