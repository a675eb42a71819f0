// vitrine attribute: how much each component writes towards a token.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/token_word.h"
#include "inspect/attribution.h"

namespace vitrine::cli {
namespace {

struct AttributeArguments : Options {
  std::string word;
  std::optional<std::string> against;
  std::int64_t position = -1;
  std::string by = "component";
  bool ablate = false;
};

void run_attribute(const AttributeArguments& o) {
  const Session session = open_full_session(o);
  AttributionOptions options;
  options.token = token_of(session, o.word);
  if (o.against) options.against = token_of(session, *o.against);
  options.position = o.position;
  options.by_head = o.by == "head";
  options.ablate = o.ablate;
  const Attribution found = attribute(session.context(o), session.tokens(), options);
  if (o.json) {
    Json terms = Json::array();
    for (const AttributionTerm& term : found.terms) {
      Json one = {{"name", term.name}, {"value", term.value}};
      if (o.ablate) one["ablated"] = term.ablated ? Json(*term.ablated) : Json();
      terms.push_back(std::move(one));
    }
    return print_json({{"ids", session.rows()},
                       {"position", found.position},
                       {"terms", terms},
                       {"sum", found.sum},
                       {"unembedded", found.unembedded},
                       {"logit", found.logit}});
  }
  std::vector<Table::Column> columns = {{"term"}, {"value", Table::Align::right}};
  if (o.ablate) columns.push_back({"logit without it", Table::Align::right});
  Table table(columns);
  const auto text = [](double value) { return fmt::format("{:.4f}", value); };
  for (const AttributionTerm& term : found.terms) {
    table.add({term.name, text(term.value), term.ablated ? text(*term.ablated) : ""});
  }
  table.rule();
  table.add({"sum", text(found.sum)});
  table.add({"unembedded", text(found.unembedded)});
  table.add({"logit", text(found.logit)});
  print(table.text());
}

}  // namespace

void add_attribute(Command& program) {
  const auto [command, o] = new_command<AttributeArguments>(
      program, "attribute", "Show how much each component or head writes towards a token");
  add_model_and_text(command, *o);
  add_second_input(command, *o);
  command.add_option("--token", o->word, "The token, a word or #ID")->required();
  add_optional(command, "--against", o->against, "Subtract the logit of this token");
  add_number<std::int64_t>(command, "--position", o->position,
                           "The position that predicts it, from the end if negative (default: the last)");
  add_choice(command, "--by", o->by, {"component", "head"},
             "component: attention as one term; head: a term for each head");
  command.add_flag("--ablate", o->ablate, "Also run the text with each term zeroed at every position");
  finish_command(command, o, run_attribute,
                 "The terms add up to unembed.hook_out of the token, through every norm, whose divisors are held "
                 "fixed. The logit\n"
                 "includes scale and softcap.\n"
                 "Example: vitrine attribute gpt2/ --ids 464,3139,286 --token '#262' --against '#257' --by head");
}

}  // namespace vitrine::cli
