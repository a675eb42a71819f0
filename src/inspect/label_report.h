// Attributions of a label as JSON, by part or by word of the text.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "inspect/label_attribution.h"
#include "tokenizer/placed.h"

namespace vitrine {

/// A text, or a query and a document, and what they are read as. Without texts, only their ids are known.
struct LabelText {
  std::vector<std::string> texts;
  PlacedTexts tokens;

  /// The tokens that integrated gradients leave as they are: those that a template adds.
  std::vector<bool> kept() const;
};

/// The text of ids of which no more is known: each is a word.
LabelText label_text_of(std::vector<std::int32_t> ids, std::vector<std::int32_t> types);

/// The number of a label. Throws BadInput, which names `where`, if the head has no such label.
std::size_t label_number(const TaskHead& head, const std::string& name, const std::string& where);

/// The tokens of a text with the same word.
struct LabelWord {
  std::string word;
  std::int8_t text = 0;
  TextPlace place;
  double value = 0;
};
/// The words of a text, each with the sum of the values of its tokens. `name`: of a token that is in no text.
std::vector<LabelWord> label_words(const LabelText& text, std::span<const double> values,
                                   const std::function<std::string(std::int32_t id)>& name);

/// `{"ids", "label", "terms": [{"name", "value"}], "output", "sum", "remainder"}`.
Json parts_json(const LabelText& text, const std::string& label, const LabelAttribution& found);
/// `{"ids", "label", "words": [{"word", "value", "text", "start", "end"}], "tokens", "baseline", "steps", "output",
/// "baseline_output", "sum", "remainder"}`.
Json words_json(const LabelText& text, const std::string& label, const PathOptions& path, const TokenAttribution& found,
                std::span<const LabelWord> words);

}  // namespace vitrine
