// How a normalized text is cut into the words that a model sees: the pre-tokenizers of tokenizer.json.
//
// Names and meaning: Hugging Face's `tokenizers`, src/pre_tokenizers. A word goes through a sequence one at a time,
// which gives the same words as all of them stage by stage and needs no memory for the text in between.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tokenizer/explanation.h"
#include "tokenizer/function_ref.h"

namespace vitrine {

/// Immutable. Text is valid UTF-8 throughout, and words are never empty.
class PreTokenizer {
 public:
  /// A word, and whether it begins where the whole input began (before normalization, added tokens cut out).
  using Word = FunctionRef<void(std::string_view word, bool at_start)>;

  virtual ~PreTokenizer() = default;
  virtual void operator()(std::string_view text, bool at_start, Word word) const = 0;

  /// Whether words come out in the byte-level alphabet, so that a model can spell any byte.
  virtual bool is_byte_level() const { return false; }
};

/// Pre-tokenizers one below the other. Without any, a text is one word.
class PreTokenizers final : public PreTokenizer {
 public:
  /// `parts` and `names` are of the same length.
  PreTokenizers(std::vector<std::unique_ptr<const PreTokenizer>> parts, std::vector<std::string> names)
      : parts_(std::move(parts)), names_(std::move(names)) {}

  void operator()(std::string_view text, bool at_start, Word word) const override {
    run(0, text, at_start, word, nullptr);
  }
  /// Tells `recorder`, unless it is null, of the words of each.
  void operator()(std::string_view text, bool at_start, Word word, EncodingRecorder* recorder) const {
    if (recorder != nullptr) recorder->begin_cuts(names_);
    run(0, text, at_start, word, recorder);
  }
  bool is_byte_level() const override;

 private:
  void run(std::size_t stage, std::string_view text, bool at_start, Word word, EncodingRecorder* recorder) const;

  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
  std::vector<std::string> names_;
};

/// The pre-tokenizers that `json` describes; none for null. Throws BadCheckpoint where it is malformed, Unsupported for
/// a type or option that is not known.
PreTokenizers parse_pre_tokenizers(const Json& json, std::string_view where);

}  // namespace vitrine
