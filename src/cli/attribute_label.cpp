#include "cli/attribute_label.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/label_text.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/texts.h"
#include "generate/rerank.h"
#include "inspect/label_attribution.h"

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

Json remainder_json(double sum, double whole) { return {{"sum", sum}, {"remainder", whole - sum}}; }

void show_parts(const AttributeArguments& o, const LabelText& text, const std::string& label,
                const LabelAttribution& found) {
  if (o.json) {
    Json terms = Json::array();
    for (const AttributionTerm& term : found.terms) terms.push_back({{"name", term.name}, {"value", term.value}});
    Json object = {{"ids", text.tokens.ids}, {"label", label}, {"terms", terms}, {"output", found.output}};
    object.update(remainder_json(found.sum, found.output));
    return print_json(object);
  }
  Table table({{"term"}, {"value", Table::Align::right}});
  const auto add = [&](const std::string& name, double value) { table.add({name, fmt::format("{:.6f}", value)}); };
  for (const AttributionTerm& term : found.terms) add(term.name, term.value);
  table.rule();
  add("sum", found.sum);
  add("output", found.output);
  add("remainder", found.output - found.sum);
  print(table.text());
}

/// The tokens of a text with the same word.
struct LabelWord {
  std::string word;
  std::int8_t text = 0;
  TextPlace place;
  double value = 0;
};

std::vector<LabelWord> words_in(const Session& session, const LabelText& text, const std::vector<double>& values) {
  std::vector<LabelWord> words;
  const PlacedTexts& tokens = text.tokens;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const bool continues = i > 0 && tokens.texts[i] >= 0 && tokens.texts[i - 1] == tokens.texts[i] &&
                           tokens.words[i - 1] == tokens.words[i];
    if (!continues) words.push_back({session.label(tokens.ids[i]), tokens.texts[i], tokens.places[i]});
    LabelWord& own = words.back();
    own.value += values[i];
    own.place.end = tokens.places[i].end;
    if (own.text < 0 || text.texts.empty()) continue;
    own.word = TextCharacters(text.texts[static_cast<std::size_t>(own.text)]).part(own.place);
  }
  return words;
}

void show_words(const AttributeArguments& o, const Session& session, const LabelText& text, const std::string& label,
                const PathOptions& path, const TokenAttribution& found) {
  double sum = 0;
  for (const double value : found.tokens) sum += value;
  const std::vector<LabelWord> words = words_in(session, text, found.tokens);
  const double difference = found.output - found.baseline;
  if (o.json) {
    Json list = Json::array(), tokens = Json::array();
    for (const LabelWord& w : words) {
      Json one = {{"word", w.word}, {"value", w.value}};
      if (w.text >= 0 && !text.texts.empty()) {
        one.update({{"text", w.text}, {"start", w.place.begin}, {"end", w.place.end}});
      }
      list.push_back(std::move(one));
    }
    for (const double value : found.tokens) tokens.push_back(value);
    Json object = {{"ids", text.tokens.ids},
                   {"label", label},
                   {"words", list},
                   {"tokens", tokens},
                   {"baseline", path.baseline},
                   {"steps", path.steps},
                   {"output", found.output},
                   {"baseline_output", found.baseline}};
    object.update(remainder_json(sum, difference));
    return print_json(object);
  }
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
  const auto& head = session.checkpoint.model->config().task;
  if (!head) throw Unsupported("attribute", "the model has no labels: it is no classifier");
  if (o.document) rank_function(session.checkpoint.model->config(), {});  // one label
  LabelChoice choice;
  choice.position = o.position;
  const std::string label = o.label.value_or(head->labels.front());
  choice.label = label_number(*head, label, "--class");
  if (o.against) choice.against = label_number(*head, *o.against, "--against");
  const LabelText text = label_text(own, session, own.pair);
  const Tokens tokens(text.tokens.ids, text.tokens.types);
  const GenerateContext context = session.context(o);
  if (o.method == "direct") {
    return show_parts(o, text, label, attribute_label(context, tokens, choice, o.by != "component"));
  }
  PathOptions path;
  path.baseline = baseline_of(o.baseline, session);
  path.steps = o.steps;
  path.keeps = text.kept();
  show_words(o, session, text, label, path, integrate_gradients(context, tokens, choice, path));
}

}  // namespace vitrine::cli
