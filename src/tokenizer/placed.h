// The ids of texts with the places of the text that they stand for, as the `tokenizers` library gives them ("offsets").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/algorithms/subword_model.h"
#include "tokenizer/places.h"
#include "tokenizer/post_processor.h"

namespace vitrine {

/// The ids of a text without those of a template, and the characters (code points) of the text that each stands for.
struct PlacedIds {
  std::vector<std::int32_t> ids;
  TextPlaces places;
  std::vector<std::int32_t> words;  ///< The number of each id's word: what the pre-tokenizers or added tokens make.
};

/// One or two texts as a model reads them.
struct PlacedTexts {
  std::vector<std::int32_t> ids, types;
  std::vector<std::int8_t> texts;   ///< Of each id: the text that it is from, 0 or 1; -1: added by the template.
  TextPlaces places;                ///< {0, 0} for what is added.
  std::vector<std::int32_t> words;  ///< -1 for what is added.
  bool is_cut = false;              ///< The text had more tokens, which no window has.
};

/// The characters of a text, valid UTF-8, by number.
class TextCharacters {
 public:
  explicit TextCharacters(std::string_view text);
  /// The part of the text at a place in characters; what is outside the text is left out.
  std::string_view part(TextPlace place) const;

 private:
  std::string_view text_;
  std::vector<std::size_t> begins_;  // and the end of the text
};

/// [begin, end) in bytes of `word` of each id, which `model` has made of the word.
TextPlaces places_in_word(const SubwordModel& model, std::string_view word, std::span<const std::int32_t> ids);

/// Takes spaces at both ends of each piece out of its place. `has_prefix`: the tokenizer has put a space before the
/// text. Source: the tokenizers library, pre_tokenizers/byte_level.rs (process_offsets).
void trim_places(std::span<const std::string> pieces, bool has_prefix, TextPlaces& places);

/// The parts of a template with the ids of the texts; `adds`: and what it adds. `second` may be null if no part has it.
PlacedTexts place_in_template(std::span<const PairPart> parts, const PlacedIds& first, const PlacedIds* second,
                              bool adds);

/// Bytes that are not UTF-8 become U+FFFD, one for each beginning of a character. Source: the Unicode Standard, §3.9,
/// "U+FFFD substitution of maximal subparts"; Rust's from_utf8_lossy.
std::string with_replacements(std::string_view text);

/// Makes places in bytes of `text`, valid UTF-8, places in characters.
void count_characters(std::string_view text, TextPlaces& places);

}  // namespace vitrine
