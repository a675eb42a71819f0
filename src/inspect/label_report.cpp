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

std::size_t label_number(const TaskHead& head, const std::string& name, const std::string& where) {
  const auto found = std::find(head.labels.begin(), head.labels.end(), name);
  if (found == head.labels.end()) {
    throw BadInput(where, "expected a label ({}), got {}", fmt::join(head.labels, ", "), name);
  }
  return static_cast<std::size_t>(found - head.labels.begin());
}

std::vector<LabelWord> label_words(const LabelText& text, std::span<const double> values,
                                   const std::function<std::string(std::int32_t id)>& name) {
  std::vector<LabelWord> words;
  const PlacedTexts& tokens = text.tokens;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const bool continues = i > 0 && tokens.texts[i] >= 0 && tokens.texts[i - 1] == tokens.texts[i] &&
                           tokens.words[i - 1] == tokens.words[i];
    if (!continues) words.push_back({name(tokens.ids[i]), tokens.texts[i], tokens.places[i]});
    LabelWord& own = words.back();
    own.value += values[i];
    own.place.end = tokens.places[i].end;
    if (own.text < 0 || text.texts.empty()) continue;
    own.word = TextCharacters(text.texts[static_cast<std::size_t>(own.text)]).part(own.place);
  }
  return words;
}

namespace {

Json remainder_json(double sum, double whole) { return {{"sum", sum}, {"remainder", whole - sum}}; }

}  // namespace

Json parts_json(const LabelText& text, const std::string& label, const LabelAttribution& found) {
  Json terms = Json::array();
  for (const AttributionTerm& term : found.terms) terms.push_back({{"name", term.name}, {"value", term.value}});
  Json object = {{"ids", text.tokens.ids}, {"label", label}, {"terms", terms}, {"output", found.output}};
  object.update(remainder_json(found.sum, found.output));
  return object;
}

Json words_json(const LabelText& text, const std::string& label, const PathOptions& path, const TokenAttribution& found,
                std::span<const LabelWord> words) {
  Json list = Json::array();
  for (const LabelWord& w : words) {
    Json one = {{"word", w.word}, {"value", w.value}};
    if (w.text >= 0 && !text.texts.empty()) {
      one.update({{"text", w.text}, {"start", w.place.begin}, {"end", w.place.end}});
    }
    list.push_back(std::move(one));
  }
  Json object = {{"ids", text.tokens.ids},
                 {"label", label},
                 {"words", list},
                 {"tokens", found.tokens},
                 {"baseline", path.baseline},
                 {"steps", path.steps},
                 {"output", found.output},
                 {"baseline_output", found.baseline}};
  const double sum = std::accumulate(found.tokens.begin(), found.tokens.end(), 0.0);
  object.update(remainder_json(sum, found.output - found.baseline));
  return object;
}

}  // namespace vitrine
