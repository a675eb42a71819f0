// The base of both kinds of GGUF tokenizer: BOS, EOS, special tokens, pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/gguf_special.h"
#include "tokenizer/gguf_vocab.h"

namespace vitrine {

class GgufTokenizer : public Tokenizer {
 public:
  std::string piece(std::int32_t id) const final { return at(id).text; }
  std::int64_t vocab_size() const final { return static_cast<std::int64_t>(vocabulary_.pieces.size()); }
  std::optional<std::int32_t> bos() const final { return vocabulary_.bos; }
  const std::vector<std::int32_t>& stop_ids() const final { return vocabulary_.stop_ids; }

 protected:
  explicit GgufTokenizer(GgufVocabulary vocabulary)
      : vocabulary_(std::move(vocabulary)), special_(vocabulary_.pieces) {}

  const GgufVocabulary& vocabulary() const { return vocabulary_; }
  const GgufVocabulary::Piece& at(std::int32_t id) const { return vocabulary_.pieces[checked_index(id)]; }
  /// Appends the ids of a text without special tokens. `is_first`: the text is at the beginning or follows a special
  /// token. `recorder` may be null.
  virtual void encode_text(std::string_view text, bool is_first, EncodingRecorder* recorder,
                           std::vector<std::int32_t>& ids) const = 0;

 private:
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens policy, EncodingRecorder* recorder) const final;

  GgufVocabulary vocabulary_;
  GgufSpecialTokens special_;
};

}  // namespace vitrine
