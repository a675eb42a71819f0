// How a normalized text is cut into the words that a model sees: the pre-tokenizers of tokenizer.json.
//
// Names and meaning: Hugging Face's `tokenizers`, src/pre_tokenizers. A word goes through a sequence one at a time,
// which gives the same words as all of them stage by stage and needs no memory for the text in between.
#pragma once

#include <memory>
#include <string_view>

#include "base/json.h"
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

/// The pre-tokenizer that `json` describes; a null pointer for null. Throws BadCheckpoint where it is malformed,
/// Unsupported for a type or option that is not known.
std::unique_ptr<const PreTokenizer> parse_pre_tokenizer(const Json& json, std::string_view where);

}  // namespace vitrine
