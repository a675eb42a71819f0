// vitrine tokenize and detokenize: convert text to ids and back.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/lines.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "tokenizer/space_cleanup.h"

namespace vitrine::cli {
namespace {

struct TokenizeOptions : Options {
  bool lines = false;
  bool explain = false;
  bool as_target = false;
};

struct DetokenizeOptions : Options {
  std::vector<std::string> id_lists;
  bool as_target = false;
};

/// The ids of one text, or their explanation, as JSON or as a table.
Json answer_json(const Tokenizer& tokenizer, const std::string& text, SpecialTokens policy, bool explain) {
  if (explain) return explanation_json(tokenizer.explain(text, policy), tokenizer);
  const std::vector<std::int32_t> ids = tokenizer.encode(text, policy);
  Json pieces = Json::array();
  for (const std::int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  return {{"ids", ids}, {"pieces", pieces}};
}

/// The ids and types of a pair of texts, as JSON.
Json pair_json(const Tokenizer& tokenizer, const Json& texts, SpecialTokens policy, const std::string& where) {
  if (texts.size() != 2 || !texts[0].is_string() || !texts[1].is_string()) {
    throw BadInput(where, "expected two JSON strings in the list");
  }
  const PairEncoding pair =
      tokenizer.encode_pair(texts[0].get_ref<const std::string&>(), texts[1].get_ref<const std::string&>(), policy);
  return {{"ids", pair.ids}, {"types", pair.types}};
}

std::string answer_table(const Tokenizer& tokenizer, const std::string& text, SpecialTokens policy, bool explain) {
  if (explain) return explanation_table(tokenizer.explain(text, policy), tokenizer);
  std::string table;
  for (const std::int32_t id : tokenizer.encode(text, policy)) {
    table += fmt::format("{:>8}  {}\n", id, in_quotes(tokenizer.piece(id)));
  }
  return table;
}

/// Reads one JSON string, or list of two, per line from stdin and prints one JSON object per line.
void tokenize_lines(const Tokenizer& tokenizer, SpecialTokens policy, const TokenizeOptions& o) {
  ThreadPool pool(o.thread_count());
  answer_lines(pool, [&](std::string_view line, std::int64_t number) {
    const std::string where = fmt::format("stdin, line {}", number);
    const Json text = parse_json(line, where);
    if (text.is_array() && !o.explain) return json_line(pair_json(tokenizer, text, policy, where));
    if (!text.is_string()) throw BadInput(where, "expected a JSON string, got {}", text.type_name());
    return json_line(answer_json(tokenizer, text.get_ref<const std::string&>(), policy, o.explain));
  });
}

void run_tokenize(const TokenizeOptions& o) {
  if (o.positionals == 0 && !o.lines) throw MissingArgument("TEXT");
  if (o.lines && o.positionals > 1) throw UsageError("TEXT", "give TEXT or --lines, not both");
  const bool has_path = o.positionals == (o.lines ? 1 : 2);
  const std::string path = !o.tokenizer.empty() ? o.tokenizer : has_path ? o.first : default_model();
  const auto loaded = load_tokenizer(path, o.tokenizer_options);
  const Tokenizer& tokenizer = o.as_target ? loaded->target() : *loaded;
  const SpecialTokens policy = o.no_special ? SpecialTokens::none : SpecialTokens::apply;
  if (o.lines) return tokenize_lines(tokenizer, policy, o);

  const std::string text = read_text(has_path ? o.second : o.first);
  if (o.json) return print_json(answer_json(tokenizer, text, policy, o.explain));
  print(answer_table(tokenizer, text, policy, o.explain));
}

bool is_id_list(const std::string& text) { return text.find_first_not_of("0123456789,-") == std::string::npos; }

/// The text of ids with the special tokens among them, where the format spells them.
std::string spelled(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  std::string text;
  std::optional<std::int32_t> previous;
  for (const std::int32_t id : ids) {
    text += tokenizer.spelled_after(previous, id);
    if (!tokenizer.spelled_after(std::nullopt, id).empty() || !tokenizer.keeps_start(id)) previous = id;
  }
  return tokenizer.cleans_up() ? clean_up_spaces(text) : text;
}

void run_detokenize(const DetokenizeOptions& o) {
  if (o.first.empty()) throw MissingArgument("ID");
  const bool has_path = !is_id_list(o.first);
  std::vector<std::int32_t> ids;
  if (!has_path) ids = parse_ids(o.first, "ID");
  for (const std::string& list : o.id_lists) {
    const std::vector<std::int32_t> more = parse_ids(list, "ID");
    ids.insert(ids.end(), more.begin(), more.end());
  }
  const auto tokenizer = load_tokenizer(!o.tokenizer.empty() ? o.tokenizer
                                        : has_path           ? o.first
                                                             : default_model(),
                                        o.tokenizer_options);
  const std::string text = spelled(o.as_target ? tokenizer->target() : *tokenizer, ids);
  if (o.json) return print_json({{"text", text}});
  print(is_terminal(1) ? text + "\n" : text);
}

void add_as_target(Command& command, bool& as_target) {
  command.add_flag("--as-target", as_target,
                   "Use the tokenizer of target texts: those that the decoder of an encoder–decoder reads and writes");
}

}  // namespace

void add_tokenize(Command& program) {
  const auto [command, o] = new_command<TokenizeOptions>(program, "tokenize", "Convert text to token ids");
  add_text(command, *o, "A tokenizer file, or a folder that contains one");
  o->first_wanted = HubWanted::tokenizer;
  o->takes_one_model = [&lines = o->lines] { return lines; };
  command.add_flag(
      "--lines", o->lines,
      "Read one JSON string, or a list of two as a pair, per line from stdin; print one JSON object per line");
  command.add_flag("--explain", o->explain, "Show step by step how the text is split, normalized and merged");
  add_as_target(command, o->as_target);
  finish_command(command, o, run_tokenize, "Example: vitrine tokenize tok512.bin \"Once upon a time\"");
}

void add_detokenize(Command& program) {
  const auto [command, o] = new_command<DetokenizeOptions>(program, "detokenize", "Convert token ids to text");
  command.add_option("MODEL", o->first, "A tokenizer file, or a folder that contains one (default: the default model)")
      ->type_name("");
  allow_hub(*o, o->first, HubWanted::tokenizer);
  command.add_option("ID", o->id_lists, "Token ids, as 1 2 3 or 1,2,3; a first positional that is a number is an ID")
      ->type_name("");
  add_as_target(command, o->as_target);
  finish_command(command, o, run_detokenize, "Example: vitrine detokenize tok512.bin 1 403 407");
}

}  // namespace vitrine::cli
