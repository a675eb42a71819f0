#include "generate/tag.h"

#include <algorithm>

#include "generate/classify.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

/// A token, or the tokens of a word.
struct Unit {
  std::string word;
  std::vector<float> scores;
  TextPlace place;
  std::int64_t index = 0;
  bool continues = false;  ///< The word of the token before.
};

std::size_t best_of(std::span<const float> scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

std::size_t n_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

/// Whether a token continues a word: where pieces have a mark for that, it is spelled otherwise than in the text; else
/// there is no space at or before its begin.
bool continues_word(const Tokenizer& tokenizer, const TextCharacters& text, const std::string& piece, TextPlace place) {
  if (!tokenizer.continuing_prefix().empty()) return n_characters(piece) != n_characters(text.part(place));
  return place.begin > 0 && text.part({place.begin - 1, place.begin + 1}).find(' ') == std::string_view::npos;
}

std::vector<Unit> tokens_of(const Tokenizer& tokenizer, const TextCharacters& text, const PlacedTexts& window,
                            std::span<const float> outputs) {
  std::vector<Unit> units;
  const std::size_t n_labels = window.ids.empty() ? 0 : outputs.size() / window.ids.size();
  for (std::size_t i = 0; i < window.ids.size(); ++i) {
    if (window.texts[i] < 0) continue;
    Unit unit{tokenizer.piece(window.ids[i]),
              scores_of(ScoreFunction::softmax, outputs.subspan(i * n_labels, n_labels)), window.places[i],
              static_cast<std::int64_t>(i)};
    unit.continues = continues_word(tokenizer, text, unit.word, unit.place);
    if (window.ids[i] == tokenizer.unknown()) {
      unit.word = text.part(unit.place);
      unit.continues = false;
    }
    units.push_back(std::move(unit));
  }
  return units;
}

std::string joined_words(const Tokenizer& tokenizer, std::span<const Unit> units) {
  std::vector<std::string> pieces;
  for (const Unit& unit : units) pieces.push_back(unit.word);
  return tokenizer.join(pieces);
}

/// The scores of a word.
std::vector<float> word_scores(std::span<const Unit> tokens, Aggregation aggregation) {
  if (aggregation == Aggregation::first) return tokens.front().scores;
  if (aggregation == Aggregation::max) {
    const auto most = [](const Unit& unit) { return unit.scores[best_of(unit.scores)]; };
    return std::max_element(tokens.begin(), tokens.end(),
                            [&](const Unit& a, const Unit& b) { return most(a) < most(b); })
        ->scores;
  }
  std::vector<float> mean;
  for (std::size_t label = 0; label < tokens.front().scores.size(); ++label) {
    double sum = 0;
    for (const Unit& token : tokens) sum += static_cast<double>(token.scores[label]);
    mean.push_back(static_cast<float>(sum / static_cast<double>(tokens.size())));
  }
  return mean;
}

std::vector<Unit> words_of(const Tokenizer& tokenizer, const std::vector<Unit>& tokens, Aggregation aggregation) {
  std::vector<Unit> words;
  for (std::size_t begin = 0; begin < tokens.size();) {
    std::size_t end = begin + 1;
    while (end < tokens.size() && tokens[end].continues) ++end;
    const std::span<const Unit> own = std::span(tokens).subspan(begin, end - begin);
    words.push_back({joined_words(tokenizer, own), word_scores(own, aggregation),
                     TextPlace{own.front().place.begin, own.back().place.end}});
    begin = end;
  }
  return words;
}

/// A label without B- or I-, and whether it begins a span. A label without either continues one.
std::pair<bool, std::string_view> tag_of(std::string_view label) {
  const bool begins = label.starts_with("B-");
  return {begins, begins || label.starts_with("I-") ? label.substr(2) : label};
}

/// Adjacent units with the same label as one span.
std::vector<TagSpan> grouped(const Tokenizer& tokenizer, const TaskHead& head, const std::vector<Unit>& units) {
  std::vector<TagSpan> spans;
  const auto label = [&](const Unit& unit) -> std::string_view { return head.labels[best_of(unit.scores)]; };
  for (std::size_t begin = 0; begin < units.size();) {
    std::size_t end = begin + 1;
    while (end < units.size() && !tag_of(label(units[end])).first &&
           tag_of(label(units[end])).second == tag_of(label(units[end - 1])).second) {
      ++end;
    }
    const std::span<const Unit> own = std::span(units).subspan(begin, end - begin);
    double sum = 0;
    for (const Unit& unit : own) sum += static_cast<double>(unit.scores[best_of(unit.scores)]);
    const std::string_view first = label(own.front());
    const std::size_t dash = first.find('-');  // of any prefix, as in the pipeline
    spans.push_back({std::string(first.substr(dash == std::string_view::npos ? 0 : dash + 1)),
                     sum / static_cast<double>(own.size()), joined_words(tokenizer, own),
                     TextPlace{own.front().place.begin, own.back().place.end}});
    begin = end;
  }
  return spans;
}

std::vector<TagSpan> without_overlaps(std::vector<TagSpan> spans) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TagSpan& a, const TagSpan& b) { return a.place.begin < b.place.begin; });
  std::vector<TagSpan> kept;
  for (TagSpan& span : spans) {
    const auto length = [](const TagSpan& s) { return s.place.end - s.place.begin; };
    if (kept.empty() || span.place.begin >= kept.back().place.end) {
      kept.push_back(std::move(span));
    } else if (length(span) > length(kept.back()) ||
               (length(span) == length(kept.back()) && span.score > kept.back().score)) {
      kept.back() = std::move(span);
    }
  }
  return kept;
}

}  // namespace

std::vector<TagSpan> spans_of(const Tokenizer& tokenizer, const TaskHead& head, const TagRules& rules,
                              const std::string& text, std::span<const PlacedTexts> windows,
                              std::span<const std::vector<float>> outputs) {
  const Aggregation aggregation = rules.aggregation;
  const TextCharacters characters(text);
  std::vector<TagSpan> all;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    std::vector<Unit> units = tokens_of(tokenizer, characters, windows[w], outputs[w]);
    if (aggregation > Aggregation::simple) units = words_of(tokenizer, units, aggregation);
    std::vector<TagSpan> spans;
    if (aggregation == Aggregation::none) {
      for (const Unit& unit : units) {
        const std::size_t best = best_of(unit.scores);
        spans.push_back({head.labels[best], static_cast<double>(unit.scores[best]), unit.word, unit.place, unit.index});
      }
    } else {
      spans = grouped(tokenizer, head, units);
    }
    std::erase_if(spans, [&](const TagSpan& span) { return std::ranges::count(rules.ignored, span.label) > 0; });
    all.insert(all.end(), std::make_move_iterator(spans.begin()), std::make_move_iterator(spans.end()));
  }
  return windows.size() > 1 ? without_overlaps(std::move(all)) : all;
}

Json spans_json(std::span<const TagSpan> spans) {
  Json list = Json::array();
  for (const TagSpan& span : spans) {
    Json one = {{span.index ? "entity" : "entity_group", span.label},
                {"score", static_cast<float>(span.score)},
                {"word", span.word},
                {"start", span.place.begin},
                {"end", span.place.end}};
    if (span.index) one["index"] = *span.index;
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace vitrine
