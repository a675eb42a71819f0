// How a folder of sentence-transformers makes one vector of a text: modules.json, 1_Pooling, sentence_bert_config.json,
// config_sentence_transformers.json, and the lengths of the tokenizer and of the model.
//
// Source: sentence-transformers 6.2.0, base/modules/transformer.py, base/model.py.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/task_head.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// How alike two vectors are: the cosine, the product, or the negative of the distance.
enum class Similarity : std::uint8_t { cosine, dot, euclidean, manhattan };

struct SentenceConfig {
  std::string pooling = "mean";  ///< "mean", "cls", "max" or "last".
  bool normalize = true;
  std::int64_t max_tokens = 0;                 ///< Longer texts are truncated; 0: none.
  std::int64_t n_suffix = 0;                   ///< The tokens that the tokenizer puts after a text; they are kept.
  bool lowercase = false;                      ///< Texts are lowercased before they are tokenized.
  std::map<std::string, std::string> prompts;  ///< By name.
  std::string prompt;                          ///< Is put before every text.
  bool pools_prompt = true;                    ///< The rows of the prompt count.
  Similarity similarity = Similarity::cosine;  ///< Of two vectors.
  std::optional<ScoreFunction> score;          ///< Of a CrossEncoder, if the folder says it.

  /// Uses a prompt by name. Throws BadInput for an unknown name, Unsupported if its rows do not count.
  void use_prompt(const std::string& name, std::string_view where);
  /// The text that is tokenized.
  std::string prepared(const std::string& text) const;
  /// The same without the prompt: the second text of a pair.
  std::string without_prompt(const std::string& text) const;
};

/// The config of the model at `path`; the default unless it is a folder with a modules.json. The length is that of the
/// folder, at most `context`, the model's. `tokenizer` may be null. Throws BadCheckpoint, and Unsupported for modules
/// or kinds of pooling that are not supported.
SentenceConfig read_sentence_config(const std::string& path, const Tokenizer* tokenizer, std::int64_t context);

/// The ids of a text, without those before the suffix that exceed max_tokens.
std::vector<std::int32_t> truncated(std::vector<std::int32_t> ids, const SentenceConfig& config);

}  // namespace vitrine
