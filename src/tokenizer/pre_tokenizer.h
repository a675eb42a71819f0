// The pre-tokenizers of tokenizer.json, which split a normalized text into the words that the model encodes.
//
// Source: Hugging Face's `tokenizers`, src/pre_tokenizers. In a sequence each word passes through all stages before the
// next word is split off. This gives the same words and needs no memory for intermediate results.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tokenizer/explanation.h"
#include "tokenizer/places.h"
#include "tokenizer/split.h"

namespace vitrine {

/// Immutable. Texts and words are valid UTF-8; words are not empty.
class PreTokenizer {
 public:
  /// A word, and whether it is at the beginning of the whole input.
  using Word = FunctionRef<void(std::string_view word, bool at_start)>;

  virtual ~PreTokenizer() = default;
  virtual void operator()(std::string_view text, bool at_start, Word word) const = 0;

  /// If the words are not parts of `text`: the places of the bytes of all words together, for those of `text`.
  virtual std::optional<TextPlaces> places_of_words(std::string_view /*text*/, bool /*at_start*/,
                                                    std::span<const TextPlace> /*places*/) const {
    return std::nullopt;
  }

  /// Whether words are in the byte-level alphabet, so that the model can spell any byte.
  virtual bool is_byte_level() const { return false; }
};

/// A sequence of pre-tokenizers. An empty sequence returns the text as one word.
class PreTokenizers final : public PreTokenizer {
 public:
  /// `parts` and `names` have the same length.
  PreTokenizers(std::vector<std::unique_ptr<const PreTokenizer>> parts, std::vector<std::string> names)
      : parts_(std::move(parts)), names_(std::move(names)) {}

  void operator()(std::string_view text, bool at_start, Word word) const override {
    run(0, text, at_start, word, nullptr);
  }
  /// Records the words of each pre-tokenizer unless `recorder` is null.
  void operator()(std::string_view text, bool at_start, Word word, EncodingRecorder* recorder) const {
    if (recorder != nullptr) recorder->begin_cuts(names_);
    run(0, text, at_start, word, recorder);
  }
  bool is_byte_level() const override;

  /// A word, and the places of its bytes.
  using PlacedWord = FunctionRef<void(std::string_view word, std::span<const TextPlace> places)>;
  void with_places(std::string_view text, bool at_start, std::span<const TextPlace> places, PlacedWord word) const {
    run_with_places(0, text, at_start, places, word);
  }

 private:
  void run_with_places(std::size_t stage, std::string_view text, bool at_start, std::span<const TextPlace> places,
                       PlacedWord word) const;
  void run(std::size_t stage, std::string_view text, bool at_start, Word word, EncodingRecorder* recorder) const;

  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
  std::vector<std::string> names_;
};

std::unique_ptr<const PreTokenizer> make_split_pre_tokenizer(Split split);

/// Returns an empty sequence for null. Throws BadCheckpoint if `json` is malformed, Unsupported for an unknown type or
/// option.
PreTokenizers parse_pre_tokenizers(const Json& json, std::string_view where);

}  // namespace vitrine
