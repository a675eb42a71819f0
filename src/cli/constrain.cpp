// vitrine constrain: shows what a constraint on answers permits.
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/lines.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "constrain/request.h"

namespace vitrine::cli {
namespace {

struct ConstrainOptions : Options {
  std::string model, schema, choice, grammar, white_space;
  std::optional<std::string> regex, text;
  std::optional<std::int64_t> left;
  bool json_object = false, follow = false, lines = false;
};

std::string read_file(const std::string& path) {
  const auto file = MappedFile::open_or_read(path);
  return std::string(file->text_without_mark());
}

/// The constraint that the options name; exactly one must.
constrain::Source source_of(const ConstrainOptions& o) {
  using Kind = constrain::Source::Kind;
  constrain::Source source;
  source.has_white_space = o.white_space.empty();
  int n_sources = 0;
  const auto take = [&](bool is_given, Kind kind, auto&& read) {
    if (!is_given) return;
    ++n_sources;
    source.kind = kind;
    read();
  };
  take(!o.schema.empty(), Kind::schema, [&] { source.text = read_file(o.schema); });
  take(o.json_object, Kind::json_object, [] {});
  take(o.regex.has_value(), Kind::regex, [&] { source.text = *o.regex; });
  take(!o.choice.empty(), Kind::choice, [&] { source.choices = constrain::parse_choices(read_file(o.choice)); });
  take(!o.grammar.empty(), Kind::grammar, [&] { source.text = read_file(o.grammar); });
  if (n_sources != 1) {
    throw UsageError("--schema", "give one of --schema, --json-object, --regex, --choice and --grammar");
  }
  return source;
}

/// The answer for people: what is known, then the tokens that may follow.
void print_table(const Json& answer, const Tokenizer& tokenizer, const constrain::Mask& mask) {
  constexpr int kMaxTokens = 40;
  print(
      fmt::format("state     {}\nstops     {}\nshortest  {}\nforced    {}\n", answer["state"].get<std::string>(),
                  answer["stops"].get<bool>() ? "yes" : "no",
                  answer["shortest"].is_null() ? "-" : fmt::format("{} bytes", answer["shortest"].get<std::int64_t>()),
                  in_quotes(answer["forced"].get<std::string>())));
  std::string table = fmt::format("allowed   {} of {} tokens\n", mask.count(), mask.n_ids());
  int n_shown = 0;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(mask.n_ids()) && n_shown < kMaxTokens; ++id) {
    if (!mask.test(id)) continue;
    table += fmt::format("{:>8}  {}\n", id, in_quotes(tokenizer.piece(id)));
    ++n_shown;
  }
  if (mask.count() > kMaxTokens) table += fmt::format("       …  and {} more\n", mask.count() - kMaxTokens);
  print(table);
}

void answer_constraint_lines(const Tokenizer& tokenizer, const std::shared_ptr<const constrain::Vocabulary>& vocabulary,
                             const ConstrainOptions& o) {
  ThreadPool pool(o.thread_count());
  answer_lines(pool, [&](std::string_view line, std::int64_t number) {
    try {
      const constrain::Request request = constrain::parse_request(line, fmt::format("stdin, line {}", number));
      return json_line(constrain::answer(request, tokenizer, vocabulary).json);
    } catch (const Error& e) {
      return json_line({{"error", e.what()}});
    }
  });
}

void run_constrain(const ConstrainOptions& o) {
  const std::string path = !o.tokenizer.empty() ? o.tokenizer : !o.model.empty() ? o.model : default_model();
  const auto loaded = load_tokenizer(path, o.tokenizer_options);
  const Tokenizer& tokenizer = loaded->target();  // answers are texts that a decoder writes
  const auto vocabulary = std::make_shared<const constrain::Vocabulary>(tokenizer);
  if (o.lines) return answer_constraint_lines(tokenizer, vocabulary, o);

  constrain::Request request;
  request.source = source_of(o);
  request.left = o.left;
  request.follows = o.follow;
  if (o.text && o.has_ids()) throw UsageError("--ids", "give TEXT or --ids, not both");
  if (o.text) request.text = read_text(*o.text);
  if (o.has_ids()) request.ids = o.ids;
  const constrain::Answer answer = constrain::answer(request, tokenizer, vocabulary);
  if (o.json) return print_json(answer.json);
  print_table(answer.json, tokenizer, answer.mask);
}

}  // namespace

void add_constrain(Command& program) {
  const auto [command, o] = new_command<ConstrainOptions>(
      program, "constrain", "Show what a JSON Schema, a regex, a list of texts or a grammar permits after a text");
  command.add_option("MODEL", o->model, "A model or a tokenizer (default: the default model)")->type_name("");
  allow_hub(*o, o->model, HubWanted::tokenizer);
  command
      .add_option_function(
          "TEXT", [text = &o->text](const std::string& value) { *text = value; },
          "The beginning of an answer (-: stdin)")
      ->type_name("");
  add_file(command, "--schema", o->schema, "JSON Schema of the answer");
  command.add_flag("--json-object", o->json_object, "The answer is a JSON object");
  add_optional(command, "--regex", o->regex, "Regex that the whole answer matches");
  add_file(command, "--choice", o->choice, "File with the possible answers: a JSON list, or one a line");
  add_file(command, "--grammar", o->grammar, "GBNF grammar of the answer");
  add_ids(command, "--ids", o->ids, "Token ids as in 1,2,3, instead of TEXT");
  add_number<std::int64_t>(command, "--left", o->left, "Permit only what N tokens can complete", 0);
  add_choice(command, "--whitespace", o->white_space, {"none"}, "Permit no white space between the parts of JSON");
  command.add_flag("--follow", o->follow, "Also show the masks before each token of TEXT");
  command.add_flag(
      "--lines", o->lines,
      "Read one request per line from stdin: a JSON object with schema, json_object, regex, choice or "
      "grammar, and, if wanted, text, bytes (base64) or ids, left, whitespace, follow, mask; print one JSON "
      "object per line");
  finish_command(command, o, run_constrain, "Example: vitrine constrain tok512.bin \"20\" --regex '[0-9]{4}'");
}

}  // namespace vitrine::cli
