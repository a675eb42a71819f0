// The token lists of a GGUF file to be written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf_writer.h"
#include "tokenizer/sentencepiece_model.h"

namespace vitrine {

/// Properties of the model for whose file a tokenizer is written.
struct GgufTokenizerNeeds {
  std::int64_t vocab_size = 0;         ///< llama.cpp requires one token for each row of the embedding.
  std::optional<std::int32_t> bos;     ///< Of the checkpoint; used if the file of the tokenizer names none.
  std::vector<std::int32_t> stop_ids;  ///< Of the checkpoint.
};

class GgufTokenList {
 public:
  void add(std::string_view text, float score, PieceType type);
  /// Adds unused tokens up to `vocab_size`. Throws BadCheckpoint if there are more tokens; `path` names the file.
  void pad(std::int64_t vocab_size, std::string_view path);
  void add_to(GgufKeys& keys, bool with_scores) const;

 private:
  std::vector<std::string> texts_;
  std::vector<float> scores_;
  std::vector<std::int32_t> types_;
};

}  // namespace vitrine
