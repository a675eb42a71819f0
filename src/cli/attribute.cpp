// vitrine attribute: how much each component writes towards a token, or why a text has a label.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/attribute_label.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/token_word.h"
#include "inspect/attribution.h"

namespace vitrine::cli {
namespace {

void run_attribute(const AttributeArguments& o) {
  if (o.label || o.document) return run_attribute_label(o);
  if (!o.documents.empty() || !o.file.empty()) throw UsageError("DOCUMENT", "documents need --document");
  if (o.word.empty()) throw MissingArgument("--token (or --class or --document)");
  if (o.method != "direct") throw UsageError("--method", "integrated gradients are those of --class or --document");
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
      program, "attribute", "Show how much each component, head or word adds to a token's logit or to a label");
  add_model_and_text(command, *o);
  command.add_option("DOCUMENT", o->documents, "With --document, the documents; TEXT is the query")->type_name("");
  add_second_input(command, *o);
  command.add_option("--token", o->word, "The token, a word or #ID");
  add_optional(command, "--class", o->label, "The label of a classifier");
  add_number<std::int64_t>(command, "--document", o->document,
                           "The number of a document of a reranker, from 0: why it has its score", 0);
  command.add_option("--documents", o->file, "File with a document on each line; - reads stdin");
  add_optional(command, "--against", o->against, "Subtract the logit of this token or label");
  add_number<std::int64_t>(command, "--position", o->position,
                           "The position that predicts it, from the end if negative (default: the last)");
  add_choice(command, "--by", o->by, {"component", "head"},
             "component: attention as one term; head: a term for each head (default: component; of a label, head)");
  add_choice(command, "--method", o->method, {"direct", "ig"},
             "Of a label, direct: what each part of the model has written; ig: integrated gradients of the words "
             "(default: direct)");
  add_number<std::int64_t>(command, "--steps", o->steps, "Points of integrated gradients (default: 64)", 1, 4096);
  add_optional(
      command, "--baseline", o->baseline,
      "What integrated gradients put in place of a token: pad, mask, a word or #ID (default: pad, or mask where "
      "the model has no padding)");
  command.add_flag("--ablate", o->ablate, "Also run the text with each term zeroed at every position");
  finish_command(command, o, run_attribute,
                 "The terms add up to unembed.hook_out of the token, or to head.hook_out of the label, through every "
                 "norm, whose divisors are\nheld fixed. A logit includes scale and softcap. The remainder is what the "
                 "terms miss.\n"
                 "Example: vitrine attribute gpt2/ --ids 464,3139,286 --token '#262' --against '#257' --by head\n"
                 "         vitrine attribute reranker/ \"What do cats eat?\" \"Cats eat fish.\" \"Dogs bark.\" "
                 "--document 0 --method ig");
}

}  // namespace vitrine::cli
