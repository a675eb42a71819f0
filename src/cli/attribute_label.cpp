#include "cli/attribute_label.h"

#include <fmt/format.h>

#include <numeric>

#include "base/error.h"
#include "cli/label_text.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/texts.h"
#include "generate/rerank.h"

namespace vitrine::cli {
namespace {

std::string document_of(const AttributeArguments& o) {
  std::vector<std::string> documents = o.documents;
  if (!o.file.empty() && !documents.empty()) throw UsageError("--documents", "give DOCUMENT or --documents, not both");
  if (!o.file.empty()) documents = read_documents(o.file);
  if (*o.document >= std::ssize(documents)) {
    throw BadInput("--document", "expected a number below {}, that of a document, got {}", documents.size(),
                   *o.document);
  }
  return documents[static_cast<std::size_t>(*o.document)];
}

void show_parts(const AttributeArguments& o, const LabelText& text, const NamedLabel& label,
                const LabelAttribution& found) {
  if (o.json) return print_json(parts_json(text, label, found));
  Table table({{"term"}, {"value", Table::Align::right}});
  const auto add = [&](const std::string& name, double value) { table.add({name, fmt::format("{:.6f}", value)}); };
  for (const AttributionTerm& term : found.terms) add(term.name, term.value);
  table.rule();
  add("sum", found.sum);
  add("output", found.output);
  add("remainder", found.output - found.sum);
  print(table.text());
}

void show_words(const AttributeArguments& o, const Session& session, const LabelText& text, const NamedLabel& label,
                const PathOptions& path, const TokenAttribution& found) {
  const std::vector<LabelWord> words = label_words(text, found.tokens, session.tokenizer.get());
  if (o.json) return print_json(words_json(text, label, path, found, words));
  const double sum = std::accumulate(found.tokens.begin(), found.tokens.end(), 0.0);
  const double difference = found.output - found.baseline;
  Table table({{"word"}, {"value", Table::Align::right}});
  const auto add = [&](const std::string& name, double value) { table.add({name, fmt::format("{:.6f}", value)}); };
  for (const LabelWord& w : words) add(w.text < 0 ? w.word : in_quotes(w.word), w.value);
  table.rule();
  add("sum", sum);
  add("output", found.output);
  add("output of the baseline", found.baseline);
  add("remainder", difference - sum);
  print(table.text());
}

}  // namespace

void run_attribute_label(const AttributeArguments& o) {
  if (!o.word.empty()) throw UsageError("--token", "give one of --token, --class and --document");
  if (o.ablate) throw UsageError("--ablate", "ablations are those of --token");
  if (o.document && o.has_ids()) throw UsageError("--ids", "--document needs a query and documents");
  if (!o.document && (!o.documents.empty() || !o.file.empty())) {
    throw UsageError("DOCUMENT", "documents need --document");
  }
  Options own = o;
  if (o.document) own.pair = document_of(o);
  read_text_once(own);
  const Session session = open_full_session(own);
  const ModelConfig& model = session.checkpoint.model->config();
  TextInputOptions as_text;
  static_cast<Options&>(as_text) = own;
  TextInputs inputs(session, as_text);
  if (o.document) rank_function(model, inputs.config());  // throws unless the model gives pairs one score
  NamedLabel label =
      named_label(model, inputs.config(), session.tokenizer.get(), {.label = o.label, .against = o.against});
  label.choice.position = o.position;
  const bool integrates = o.method == "ig";
  const LabelText text = label_text(own, session, inputs, own.pair, integrates);
  const Tokens tokens(text.tokens.ids, text.tokens.types);
  const GenerateContext context = session.context(o);
  if (!integrates) {
    return show_parts(o, text, label, attribute_label(context, tokens, label.choice, o.by != "component"));
  }
  PathOptions path;
  path.baseline = baseline_of(o.baseline, session);
  path.steps = o.steps;
  path.keeps = text.kept();
  show_words(o, session, text, label, path, integrate_gradients(context, tokens, label.choice, path));
}

}  // namespace vitrine::cli
