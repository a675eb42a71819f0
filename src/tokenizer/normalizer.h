// The normalizers of tokenizer.json, which change a text before it is split.
//
// Source: Hugging Face's `tokenizers`, src/normalizers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "tokenizer/explanation.h"
#include "tokenizer/places.h"

namespace vitrine {

/// Immutable. Input and output are valid UTF-8.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// Records the changes of each normalizer unless `recorder` is null. Throws OutOfCapacity if the text grows beyond 32
  /// times its size plus 64 KiB, because a file may list many replacements that each double the text. (Of the
  /// normalizers in use, NFKD has the largest growth, a factor of up to 11.)
  std::string operator()(std::string text, EncodingRecorder* recorder) const {
    const std::size_t most = (std::size_t{64} << 10) + 32 * text.size();
    return apply(std::move(text), most, recorder);
  }

  /// The same for a text whose bytes have `places`, which become those of the result.
  std::string operator()(const std::string& text, TextPlaces& places) const {
    return align(text, (std::size_t{64} << 10) + 32 * text.size(), places);
  }

  virtual std::string align(const std::string& text, std::size_t most, TextPlaces& places) const = 0;

  /// The same, but throws OutOfCapacity if a result exceeds `most` bytes.
  virtual std::string apply(std::string text, std::size_t most, EncodingRecorder* recorder) const = 0;
};

/// Returns null for null. Throws BadCheckpoint if `json` is malformed, Unsupported for an unknown type or option.
std::unique_ptr<const Normalizer> parse_normalizer(const Json& json, std::string_view where);

}  // namespace vitrine
