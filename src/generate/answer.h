// The part of a text that answers a question, from two outputs for each token: whether the answer begins there, and
// whether it ends there.
//
// Source: transformers 4.57, pipelines/question_answering.py (version 5 has no such pipeline).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/text_windows.h"
#include "model/config.h"

namespace vitrine {

struct AnswerOptions {
  std::int64_t top = 1;
  std::int64_t max_tokens = 15;   ///< Of an answer.
  bool reads_class_token = true;  ///< The template's first token is one of the class, as [CLS], which has outputs, too.
  bool may_have_none = false;     ///< An empty answer has the score of the template's first token, as in SQuAD 2.
  std::int64_t window = 384;      ///< The largest number of ids of a window.
  std::optional<std::int64_t> stride{};  ///< Ids that windows share; absent: half a window, at most 128.

  /// The windows of a model that reads at most `most` ids.
  WindowOptions windows(std::int64_t most) const;
};

/// The options for a model, with the defaults of the rest.
AnswerOptions answer_options(const ModelConfig& model);

struct TextAnswer {
  std::string answer;
  double score = 0;
  TextPlace place;  ///< In characters of the text.
};

/// At most `options.top` answers, the most likely first. The windows are those of a question and `text`; `outputs`,
/// `[n, 2]`, are those of each window. Answers are whole words. The scores of answers that are spelled alike, in lower
/// case, are added.
std::vector<TextAnswer> answers_of(const std::string& text, std::span<const PlacedTexts> windows,
                                   std::span<const std::vector<float>> outputs, const AnswerOptions& options);

}  // namespace vitrine
