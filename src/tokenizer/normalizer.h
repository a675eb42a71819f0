// What happens to a text before it is cut: the normalizers of tokenizer.json.
//
// Names and meaning: Hugging Face's `tokenizers`, src/normalizers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace vitrine {

/// Immutable. Text in and out is valid UTF-8.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual std::string operator()(std::string text) const = 0;
};

/// The normalizer that `json` describes; a null pointer for null. Throws BadCheckpoint where it is malformed,
/// Unsupported for a type or option that is not known.
std::unique_ptr<const Normalizer> parse_normalizer(const Json& json, std::string_view where);

}  // namespace vitrine
