// What happens to a text before it is cut: the normalizers of tokenizer.json.
//
// Names and meaning: Hugging Face's `tokenizers`, src/normalizers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "tokenizer/explanation.h"

namespace vitrine {

/// Immutable. Text in and out is valid UTF-8.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Tells `recorder`, unless it is null, what each normalizer that has a name has changed.
  virtual std::string operator()(std::string text, EncodingRecorder* recorder) const = 0;
};

/// The normalizer that `json` describes; a null pointer for null. Throws BadCheckpoint where it is malformed,
/// Unsupported for a type or option that is not known.
std::unique_ptr<const Normalizer> parse_normalizer(const Json& json, std::string_view where);

}  // namespace vitrine
