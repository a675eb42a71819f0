// What happens to a text before it is cut: the normalizers of tokenizer.json.
//
// Names and meaning: Hugging Face's `tokenizers`, src/normalizers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "tokenizer/explanation.h"

namespace vitrine {

/// Immutable. Text in and out is valid UTF-8.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// Tells `recorder`, unless it is null, what each normalizer that has a name has changed. Throws OutOfCapacity where
  /// the text would grow beyond 32 times its size and 64 KiB: a list of replacements, each of which doubles the text,
  /// would fill any memory. (Of what is in use NFKD grows a text most, at the worst 11 times.)
  std::string operator()(std::string text, EncodingRecorder* recorder) const {
    const std::size_t most = (std::size_t{64} << 10) + 32 * text.size();
    return apply(std::move(text), most, recorder);
  }

  /// The same; throws OutOfCapacity where a text of more than `most` bytes comes about.
  virtual std::string apply(std::string text, std::size_t most, EncodingRecorder* recorder) const = 0;
};

/// The normalizer that `json` describes; a null pointer for null. Throws BadCheckpoint where it is malformed,
/// Unsupported for a type or option that is not known.
std::unique_ptr<const Normalizer> parse_normalizer(const Json& json, std::string_view where);

}  // namespace vitrine
