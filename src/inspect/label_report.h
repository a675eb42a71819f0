// Attributions of a label as JSON, by part or by word of the text.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/hugging_face/sentence_transformers.h"
#include "inspect/integrated_gradients.h"
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

/// What is explained, by name: a label or, of a folder with LogitScore, one of the tokens that it reads.
struct NamedLabel {
  LabelChoice choice;
  std::string label;
  std::optional<std::string> against{};
};
/// Names that a user has given, and what they are called in errors.
struct LabelNames {
  std::optional<std::string> label{}, against{};
  std::string label_field = "--class", against_field = "--against";
};
/// The label of these names. Without any: the only label there is; where there are two, yes and no, the first minus the
/// second. `tokenizer` spells the tokens of LogitScore, and may be null. Throws BadInput for an unknown name, and for
/// none where there are several labels; Unsupported for a model that has no labels and no LogitScore, and for a folder
/// with modules after them.
NamedLabel named_label(const ModelConfig& model, const SentenceConfig& folder, const Tokenizer* tokenizer,
                       const LabelNames& names);

/// The number of a label. Throws BadInput, which names `where`, if there is no such label.
std::size_t label_number(const std::vector<std::string>& labels, const std::string& name, const std::string& where);

/// The tokens of a text with the same word.
struct LabelWord {
  std::string word;
  std::int8_t text = 0;
  TextPlace place;
  double value = 0;
};
/// The words of a text, each with the sum of the values of its tokens. A token that is in no text is a word, spelled as
/// in the vocabulary, or `#ID` where `tokenizer` is null or does not know it.
std::vector<LabelWord> label_words(const LabelText& text, std::span<const double> values, const Tokenizer* tokenizer);

/// `{"ids", "label", "terms": [{"name", "value"}], "output", "sum", "remainder"}`, and `"against"` if there is one.
Json parts_json(const LabelText& text, const NamedLabel& label, const LabelAttribution& found);
/// `{"ids", "label", "words": [{"word", "value", "text", "start", "end"}], "tokens", "baseline", "steps", "output",
/// "baseline_output", "sum", "remainder"}`, and `"against"` if there is one.
Json words_json(const LabelText& text, const NamedLabel& label, const PathOptions& path, const TokenAttribution& found,
                std::span<const LabelWord> words);

}  // namespace vitrine
