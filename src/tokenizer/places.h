// Where the parts of a normalized text are in the original, as the `tokenizers` library has it: each byte of a text
// that was made from another has the place of one character of it.
//
// Source: Hugging Face's `tokenizers`, tokenizer/normalizer.rs (NormalizedString::transform_range).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/utf8.h"

namespace vitrine {

/// [begin, end) of a text: bytes or characters.
struct TextPlace {
  std::uint32_t begin = 0, end = 0;

  bool operator==(const TextPlace&) const = default;
};

/// A place for each byte.
using TextPlaces = std::vector<TextPlace>;

/// Each byte has the place of its character, which begins at `first`. `text` must be valid UTF-8.
inline TextPlaces places_of(std::string_view text, std::size_t first) {
  TextPlaces places;
  places.reserve(text.size());
  for_each_character(text, [&](std::uint32_t, std::string_view character) {
    const auto begin = static_cast<std::uint32_t>(first + places.size());
    places.insert(places.end(), character.size(), {begin, begin + static_cast<std::uint32_t>(character.size())});
  });
  return places;
}

/// From the first place to the last; an empty one without any.
inline TextPlace joined(std::span<const TextPlace> places) {
  return places.empty() ? TextPlace() : TextPlace{places.front().begin, places.back().end};
}

/// A character of a new text: `change` is 0 if it replaces one of the old text, 1 if it is inserted, and -n if n more
/// characters of the old text follow the one that it replaces, and are removed.
struct CharacterChange {
  std::size_t n_bytes = 0;
  std::ptrdiff_t change = 0;
};

/// The places of the new text. An inserted character has that of the byte before it, at the beginning {0, 0}.
inline TextPlaces changed(std::string_view text, std::span<const TextPlace> places,
                          std::span<const CharacterChange> characters) {
  TextPlaces result;
  std::size_t at = 0;  // in `text`
  const auto skip = [&] { at += at < text.size() ? length_by_lead(text[at]) : 0; };
  for (const CharacterChange& c : characters) {
    const std::size_t from = c.change > 0 ? at - 1 : std::min(at, text.size() - 1);
    result.insert(result.end(), c.n_bytes, at == 0 && c.change > 0 ? TextPlace() : places[from]);
    if (c.change > 0) continue;
    for (std::ptrdiff_t i = c.change; i <= 0; ++i) skip();
  }
  return result;
}

}  // namespace vitrine
