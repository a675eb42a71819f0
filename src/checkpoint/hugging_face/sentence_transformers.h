// How a folder of sentence-transformers reads a text: its modules (text_modules.h), its prompts, what its vectors are
// compared by (config_sentence_transformers.json), and the lengths of the tokenizer and of the model.
//
// Source: sentence-transformers 6.2.0, base/modules/transformer.py, base/model.py.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/hugging_face/text_modules.h"
#include "model/task_head.h"
#include "model/text_steps.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// How alike two vectors are: the cosine, the product, or the negative of the distance. Of two texts with a vector for
/// each token: the sum, over those of the first, of the largest product with one of the second, or the mean.
enum class Similarity : std::uint8_t { cosine, dot, euclidean, manhattan, max_sim, mean_max_sim };

/// What a text is read as, if that is known: prompts, lengths and the tokens that count may differ.
enum class TextRole : std::uint8_t { any, query, document };

struct SentenceConfig {
  bool normalize = true;     ///< The last step divides by the length.
  bool has_modules = false;  ///< The folder has a modules.json.
  bool gives_types = true;   ///< The tokenizer's class gives models the types of a pair's tokens.
  TextSteps steps{.steps = {PoolStep{}, NormalizeStep{}}};
  ReadingModule reading{};
  std::int64_t max_tokens = 0;                   ///< Longer texts are truncated; 0: none.
  std::int64_t n_suffix = 0;                     ///< The tokens that the tokenizer puts after a text; they are kept.
  std::optional<std::int32_t> expansion_id{};    ///< The token that expands queries.
  std::map<std::string, std::string> prompts{};  ///< By name.
  std::string prompt{};                          ///< Is put before every text.
  TextRole role = TextRole::any;                 ///< Of the texts that are read.
  Similarity similarity = Similarity::cosine;    ///< Of two texts.
  std::optional<ScoreFunction> score{};          ///< Of a CrossEncoder, if the folder says it.
  std::optional<std::int64_t> dimensions{};      ///< Vectors are cut to so many elements.
  std::optional<std::int64_t> most_words{};      ///< Of a sparse vector; the largest.
  std::string pair_template{};  ///< Of a decoder that reads {query} and {document} within a text; "": pairs are plain.

  /// Uses a prompt by name. Throws BadInput for an unknown name, with those that there are.
  void use_prompt(const std::string& name, std::string_view where);
  /// Reads queries or documents, with the prompt of that name, or none.
  void use_role(TextRole role);
  /// The text that is tokenized.
  std::string prepared(const std::string& text) const;
  /// The same without the prompt: the second text of a pair.
  std::string without_prompt(const std::string& text) const;
  /// The tokens to which a text of the role is truncated; 0: all.
  std::int64_t most_tokens() const;
  /// Whether texts have a vector each, one for each token, or scores.
  TextValue result() const { return steps.result; }
  /// The mode, if the vectors are rows pooled by one, all of whose elements are left.
  std::optional<PoolStep::Mode> plain_mode() const {
    return dimensions || reading.is_table ? std::nullopt : only_mode(steps);
  }
  /// Whether the vectors are weights of the words of the vocabulary.
  bool is_sparse() const { return steps.source == TextSteps::Source::word_logits; }
};

/// The config of the model at `path`: of a folder, or a GGUF file's keys; else the default. The length is that of the
/// folder, at most `context`, the model's. `tokenizer` may be null. Throws BadCheckpoint, and Unsupported for modules
/// or options that are not supported.
SentenceConfig read_sentence_config(const std::string& path, const Tokenizer* tokenizer, std::int64_t context);

/// The ids of two texts in pair_template, in which special tokens count only where the template itself has them. Throws
/// BadInput for more than `most`.
std::vector<std::int32_t> templated_pair(const Tokenizer& tokenizer, const SentenceConfig& config,
                                         const std::string& query, const std::string& document, std::int64_t most);

/// The ids of a text, without those before the suffix that exceed most_tokens().
std::vector<std::int32_t> truncated(std::vector<std::int32_t> ids, const SentenceConfig& config);

/// What the steps know of a text of these ids, which begins with the folder's prompt. Adds the tokens that expand a
/// query to the ids. `tokenizer` may be null: the prompt has no tokens.
TextMarks marked(std::vector<std::int32_t>& ids, const SentenceConfig& config, const Tokenizer* tokenizer);

}  // namespace vitrine
