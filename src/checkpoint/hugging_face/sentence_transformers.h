// How a folder of sentence-transformers makes one vector of a text: modules.json, 1_Pooling, sentence_bert_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vitrine {

struct SentenceConfig {
  std::string pooling = "mean";  ///< "mean", "cls", "max" or "last".
  bool normalize = true;
  std::optional<std::int64_t> max_tokens;  ///< Longer texts are truncated.
  bool lowercase = false;                  ///< Texts are lowercased before they are tokenized.
};

/// The folder's config; the default if it has no modules.json. Throws BadCheckpoint, and Unsupported for modules or
/// kinds of pooling that are not supported.
SentenceConfig read_sentence_config(const std::string& folder);

/// The ids of a text, without those before its last one that exceed max_tokens.
std::vector<std::int32_t> truncated(std::vector<std::int32_t> ids, const SentenceConfig& config);

}  // namespace vitrine
