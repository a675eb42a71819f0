// Lines of files of texts: their columns and labels, and the ids of their texts.
//
// Each line is one JSON object, with the columns that datasets for sentence-transformers and transformers have:
//   classify   text (+ text_pair), label
//   tag        tokens, tags
//   rerank     query, document, label; query, documents, labels; query, positive, negative…, label
//   embed      anchor, positive, negative…; sentence1, sentence2, score
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/hugging_face/sentence_transformers.h"
#include "model/task_head.h"
#include "tokenizer/tokenizer.h"
#include "train/text_loss.h"

namespace vitrine {

/// The texts of a line: one, or a pair, of classify; the tokens of tag; a query and documents of rerank; the columns of
/// embed. `label` is null if the line has none.
struct TextLine {
  std::vector<std::string> texts;
  Json label;
  std::size_t n_positive = 0;  ///< The documents of rerank that are not in the columns negative….
};

/// Parses a line. Throws BadInput, naming the column, for one that the task does not have or that is missing.
TextLine parse_text_line(LearnedTask task, std::string_view line, const std::string& where);

/// Calls `take(line, where)` for each line of a JSON Lines file that is not blank. Throws BadInput if it has none.
void for_each_text_line(LearnedTask task, const std::string& path,
                        const std::function<void(TextLine line, const std::string& where)>& take);

/// The labels of a line as numbers: the number of a label, one number for each label, tags of the tokens, scores of the
/// documents, margins. Throws BadInput if they do not fit the loss, the texts or the labels of the model.
std::vector<double> labels_of(const TextObjective& objective, const std::vector<std::string>& names,
                              const TextLine& line, const std::string& where);

/// The loss that the head's problem_type asks for, as in transformers.
TextLoss loss_of_problem(const TaskHead& head);

/// Ids of a text, and the types of their tokens, if the model has types and the text is a pair.
struct EncodedText {
  std::vector<std::int32_t> ids, types{};
  bool is_cut = false;
};

/// Makes ids of texts as sentence-transformers and transformers do for training: without prompts, cut to the folder's
/// length.
class TextEncoder {
 public:
  /// `tokenizer` must outlive the encoder.
  TextEncoder(const Tokenizer& tokenizer, SentenceConfig config, bool has_types)
      : tokenizer_(tokenizer), config_(std::move(config)), has_types_(has_types) {}

  const SentenceConfig& config() const { return config_; }
  EncodedText text(const std::string& text) const;
  EncodedText pair(const std::string& a, const std::string& b) const;
  /// The ids of words, each tokenized by itself, between the tokens that the tokenizer puts around a text.
  /// `first_rows` receives the row of the first id of each word; −1 for a word that has none or is cut off.
  EncodedText words(const std::vector<std::string>& words, std::vector<std::int64_t>& first_rows) const;

 private:
  const Tokenizer& tokenizer_;
  SentenceConfig config_;
  bool has_types_;
};

}  // namespace vitrine
