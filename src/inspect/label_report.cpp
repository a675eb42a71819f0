#include "inspect/label_report.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace vitrine {

std::vector<bool> LabelText::kept() const {
  std::vector<bool> all;
  for (const std::int8_t from : tokens.texts) all.push_back(from < 0);
  return all;
}

LabelText label_text_of(std::vector<std::int32_t> ids, std::vector<std::int32_t> types) {
  LabelText result;
  result.tokens.texts.resize(ids.size());
  result.tokens.places.resize(ids.size());
  result.tokens.words.resize(ids.size());
  std::iota(result.tokens.words.begin(), result.tokens.words.end(), 0);
  result.tokens.ids = std::move(ids);
  result.tokens.types = std::move(types);
  return result;
}

std::size_t label_number(const std::vector<std::string>& labels, const std::string& name, const std::string& where) {
  const auto found = std::find(labels.begin(), labels.end(), name);
  if (found == labels.end()) throw BadInput(where, "expected a label ({}), got {}", fmt::join(labels, ", "), name);
  return static_cast<std::size_t>(found - labels.begin());
}

namespace {

/// The labels that a model has, and the numbers of their outputs.
struct Labels {
  std::vector<std::string> names;
  std::vector<std::size_t> numbers;
  bool are_words = false;

  std::size_t number(const std::string& name, const std::string& where) const {
    return numbers[label_number(names, name, where)];
  }
};

/// The token as the vocabulary spells it, or #ID.
std::string spelled(const Tokenizer* tokenizer, std::int32_t id) {
  return tokenizer != nullptr && id < tokenizer->vocab_size() ? tokenizer->piece(id) : fmt::format("#{}", id);
}

Labels labels_of_words(const LogitStep& step, const Tokenizer* tokenizer) {
  Labels labels;
  labels.are_words = true;
  for (const std::optional<std::int32_t> id : {std::optional(step.yes), step.no}) {
    if (!id) continue;
    labels.names.push_back(spelled(tokenizer, *id));
    labels.numbers.push_back(static_cast<std::size_t>(*id));
  }
  return labels;
}

Labels labels_of(const ModelConfig& model, const SentenceConfig& folder, const Tokenizer* tokenizer) {
  using Source = TextSteps::Source;
  const std::vector<TextStep>& steps = folder.steps.steps;
  const bool makes_scores = folder.has_modules && folder.result() == TextValue::scores;
  const bool reads_words = makes_scores && folder.steps.source == Source::next_logits;
  if (makes_scores && (folder.steps.source == Source::rows || steps.size() > (reads_words ? 1U : 0U))) {
    throw Unsupported("attribute", "the folder's modules make scores after the model's head: they are not explained");
  }
  if (reads_words) return labels_of_words(std::get<LogitStep>(steps.front()), tokenizer);
  if (!model.task) throw Unsupported("attribute", "the model has no labels: it is no classifier");
  Labels labels{model.task->labels, {}};
  labels.numbers.resize(labels.names.size());
  std::iota(labels.numbers.begin(), labels.numbers.end(), std::size_t{0});
  return labels;
}

}  // namespace

NamedLabel named_label(const ModelConfig& model, const SentenceConfig& folder, const Tokenizer* tokenizer,
                       const LabelNames& names) {
  const Labels labels = labels_of(model, folder, tokenizer);
  const bool is_answer =
      labels.are_words ? labels.names.size() == 2 : labels.names == std::vector<std::string>{"yes", "no"};
  NamedLabel found;
  found.against = names.against;
  if (names.label) {
    found.label = *names.label;
  } else if (labels.names.size() == 1 || is_answer) {
    found.label = labels.names.front();
    if (is_answer && !found.against) found.against = labels.names.back();
  } else {
    throw BadInput(names.label_field, "expected a label ({}), got none", fmt::join(labels.names, ", "));
  }
  found.choice.is_next_word = labels.are_words;
  found.choice.label = labels.number(found.label, names.label_field);
  if (found.against) found.choice.against = labels.number(*found.against, names.against_field);
  return found;
}

std::vector<LabelWord> label_words(const LabelText& text, std::span<const double> values, const Tokenizer* tokenizer) {
  std::vector<LabelWord> words;
  const PlacedTexts& tokens = text.tokens;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const bool continues = i > 0 && tokens.texts[i] >= 0 && tokens.texts[i - 1] == tokens.texts[i] &&
                           tokens.words[i - 1] == tokens.words[i];
    if (!continues) words.push_back({spelled(tokenizer, tokens.ids[i]), tokens.texts[i], tokens.places[i]});
    LabelWord& own = words.back();
    own.value += values[i];
    own.place.end = tokens.places[i].end;
    if (own.text < 0 || text.texts.empty()) continue;
    own.word = TextCharacters(text.texts[static_cast<std::size_t>(own.text)]).part(own.place);
  }
  return words;
}

namespace {

/// What both kinds of attributions have.
Json with_label(const LabelText& text, const NamedLabel& label, double sum, double whole, Json object) {
  object.update({{"ids", text.tokens.ids}, {"label", label.label}, {"sum", sum}, {"remainder", whole - sum}});
  if (label.against) object["against"] = *label.against;
  return object;
}

}  // namespace

Json parts_json(const LabelText& text, const NamedLabel& label, const LabelAttribution& found) {
  Json terms = Json::array();
  for (const AttributionTerm& term : found.terms) terms.push_back({{"name", term.name}, {"value", term.value}});
  return with_label(text, label, found.sum, found.output, {{"terms", terms}, {"output", found.output}});
}

Json words_json(const LabelText& text, const NamedLabel& label, const PathOptions& path, const TokenAttribution& found,
                std::span<const LabelWord> words) {
  Json list = Json::array();
  for (const LabelWord& w : words) {
    Json one = {{"word", w.word}, {"value", w.value}};
    if (w.text >= 0 && !text.texts.empty()) {
      one.update({{"text", w.text}, {"start", w.place.begin}, {"end", w.place.end}});
    }
    list.push_back(std::move(one));
  }
  const double sum = std::accumulate(found.tokens.begin(), found.tokens.end(), 0.0);
  return with_label(text, label, sum, found.output - found.baseline,
                    {{"words", list},
                     {"tokens", found.tokens},
                     {"baseline", path.baseline},
                     {"steps", path.steps},
                     {"output", found.output},
                     {"baseline_output", found.baseline}});
}

}  // namespace vitrine
