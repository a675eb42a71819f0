// Spans of a text that have the same label, from a label for each of its tokens.
//
// Source: transformers 5.24, pipelines/token_classification.py.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "generate/text_windows.h"
#include "model/task_head.h"

namespace vitrine {

/// What becomes of the labels of tokens. `none`: each token is a span. `simple`: adjacent tokens with the same label
/// are one, labels that begin with B- begin another. The others first give all tokens of a word one label: the first
/// token's, that of the mean of their scores, or that of the token with the highest score.
enum class Aggregation : std::uint8_t { none, simple, first, average, max };
constexpr auto words(Aggregation) {
  return std::to_array<std::string_view>({"none", "simple", "first", "average", "max"});
}

/// How labels of tokens become spans.
struct TagRules {
  Aggregation aggregation = Aggregation::simple;
  std::vector<std::string> ignored = {"O"};  ///< Labels whose spans are left out.
};

struct TagSpan {
  std::string label;  ///< Without B- and I-, unless the span is a token.
  double score = 0;
  std::string word;                     ///< The piece of a token; else the pieces, decoded.
  TextPlace place;                      ///< In characters of the text.
  std::optional<std::int64_t> index{};  ///< Of a token, in its window.
};

/// The spans of a text whose windows a model has read; `outputs`, `[n, labels]`, are those of each window. Of spans of
/// two windows that overlap, the longer one counts, then the one with the higher score.
std::vector<TagSpan> spans_of(const Tokenizer& tokenizer, const TaskHead& head, const TagRules& rules,
                              const std::string& text, std::span<const PlacedTexts> windows,
                              std::span<const std::vector<float>> outputs);

/// `[{"entity_group" or, of a token, "entity", "score", "word", "start", "end"}]`, the fields of the pipeline; of a
/// token, "index", too.
Json spans_json(std::span<const TagSpan> spans);

}  // namespace vitrine
