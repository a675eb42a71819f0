// The lists of tokens in a GGUF file that is being written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf_writer.h"
#include "tokenizer/sentencepiece_model.h"

namespace vitrine {

/// What the model asks of a tokenizer that goes into its file.
struct GgufTokenizerNeeds {
  std::int64_t vocab_size = 0;         ///< llama.cpp asks for one token per row of the embedding.
  std::optional<std::int32_t> bos;     ///< The checkpoint's own, where the tokenizer's file names none.
  std::vector<std::int32_t> stop_ids;  ///< Likewise.
};

class GgufTokenList {
 public:
  void add(std::string_view text, float score, PieceType type);
  /// Unused tokens up to `vocab_size`. Throws BadCheckpoint, with `path`, where there are more tokens than that.
  void pad(std::int64_t vocab_size, std::string_view path);
  void add_to(GgufKeys& keys, bool with_scores) const;

 private:
  std::vector<std::string> texts_;
  std::vector<float> scores_;
  std::vector<std::int32_t> types_;
};

}  // namespace vitrine
