#include "tokenizer/placed.h"

#include "tokenizer/split.h"
#include "tokenizer/unicode.h"

namespace vitrine {
namespace {

/// What piece `i` of `n` spells within a word.
std::string_view spelled(const SubwordModel::Spelling& s, std::string_view piece, std::size_t i, std::size_t n) {
  if (i > 0 && piece.starts_with(s.continuing_prefix)) piece.remove_prefix(s.continuing_prefix.size());
  if (i + 1 == n && piece.ends_with(s.end_of_word_suffix)) piece.remove_suffix(s.end_of_word_suffix.size());
  return piece;
}

std::uint32_t as_place(std::size_t n) { return static_cast<std::uint32_t>(n); }

/// The places of `n` ids that spell [begin, end) of the word in another way: unknown characters, or bytes.
void add_unknown(std::string_view word, std::size_t begin, std::size_t end, std::size_t n, bool is_whole,
                 TextPlaces& places) {
  TextPlaces parts;
  if (!is_whole && n == end - begin) {  // a piece for a byte
    for (std::size_t i = begin; i < end; ++i) parts.push_back({as_place(i), as_place(i + 1)});
  } else if (!is_whole) {  // a piece for a character
    for_each_character(word.substr(begin, end - begin), [&](std::uint32_t, std::string_view character) {
      const auto at = as_place(static_cast<std::size_t>(character.data() - word.data()));
      parts.push_back({at, at + as_place(character.size())});
    });
  }
  if (parts.size() != n) parts.assign(n, {as_place(begin), as_place(end)});
  places.insert(places.end(), parts.begin(), parts.end());
}

}  // namespace

TextPlaces places_in_word(const SubwordModel& model, std::string_view word, std::span<const std::int32_t> ids) {
  const SubwordModel::Spelling spelling = model.spelling();
  const auto piece = [&](std::size_t i) { return spelled(spelling, model.pieces().piece(ids[i]), i, ids.size()); };
  const auto is_known = [&](std::size_t i) { return ids[i] != model.unknown() && !piece(i).empty(); };
  TextPlaces places;
  std::size_t at = 0;
  for (std::size_t i = 0; i < ids.size();) {
    if (is_known(i) && word.substr(at).starts_with(piece(i))) {
      const std::size_t end = at + piece(i).size();
      places.push_back({as_place(at), as_place(end)});
      at = end;
      ++i;
      continue;
    }
    std::size_t next = i + 1, end = std::string_view::npos;
    for (; next < ids.size(); ++next) {
      end = is_known(next) ? word.find(piece(next), at + 1) : std::string_view::npos;
      if (end != std::string_view::npos) break;
    }
    end = std::min(end, word.size());
    add_unknown(word, at, end, next - i, spelling.fuses_unknown, places);
    at = end;
    i = next;
  }
  return places;
}

void trim_places(std::span<const std::string> pieces, bool has_prefix, TextPlaces& places) {
  static const std::uint32_t kSpace = code_point(byte_level(" "));
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::vector<bool> is_space;
    for_each_character(
        pieces[i], [&](std::uint32_t c, std::string_view) { is_space.push_back(c == kSpace || is_white_space(c)); });
    const auto run = [](auto first, auto last) {
      return as_place(static_cast<std::size_t>(std::find(first, last, false) - first));
    };
    std::uint32_t before = run(is_space.begin(), is_space.end());
    const std::uint32_t after = run(is_space.rbegin(), is_space.rend());
    TextPlace& place = places[i];
    if (before > 0 && has_prefix && (i == 0 || place.begin == 0)) --before;
    place.begin = std::min(place.begin + before, place.end);
    if (after > 0 && place.end >= after) place.end = std::max(place.end - after, place.begin);
  }
}

TextCharacters::TextCharacters(std::string_view text) : text_(text) {
  for (std::size_t i = 0; i < text.size(); i += length_by_lead(text[i])) begins_.push_back(i);
  begins_.push_back(text.size());
}

std::string_view TextCharacters::part(TextPlace place) const {
  const std::size_t last = begins_.size() - 1, begin = std::min<std::size_t>(place.begin, last);
  const std::size_t end = std::clamp<std::size_t>(place.end, begin, last);
  return text_.substr(begins_[begin], begins_[end] - begins_[begin]);
}

void count_characters(std::string_view text, TextPlaces& places) {
  std::vector<std::uint32_t> characters;  // before each byte
  std::uint32_t n = 0;
  for (const char byte : text) {
    characters.push_back(is_continuation(byte) ? n - 1 : n);
    n += is_continuation(byte) ? 0 : 1;
  }
  characters.push_back(n);
  for (TextPlace& place : places) place = {characters[place.begin], characters[place.end]};
}

PlacedTexts place_in_template(std::span<const PairPart> parts, const PlacedIds& first, const PlacedIds* second,
                              bool adds) {
  using Kind = PairPart::Kind;
  PlacedTexts result;
  for (const PairPart& part : parts) {
    if (part.kind == Kind::added && !adds) continue;
    const bool is_added = part.kind == Kind::added;
    const PlacedIds& text = part.kind == Kind::second ? *second : first;
    const std::vector<std::int32_t>& ids = is_added ? part.ids : text.ids;
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    if (!is_added) result.places.insert(result.places.end(), text.places.begin(), text.places.end());
    if (!is_added) result.words.insert(result.words.end(), text.words.begin(), text.words.end());
    result.places.resize(result.ids.size());
    result.words.resize(result.ids.size(), -1);
    result.types.resize(result.ids.size(), part.type);
    const int number = is_added ? -1 : part.kind == Kind::second ? 1 : 0;
    result.texts.resize(result.ids.size(), static_cast<std::int8_t>(number));
  }
  return result;
}

std::string with_replacements(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t valid = valid_prefix(text);
    result += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    std::size_t n = 1;
    const auto begins_character = [&](std::size_t bytes) {
      const std::size_t length = length_by_lead(text[0]);
      return bytes <= text.size() && bytes < length &&
             is_valid_utf8(std::string(text.substr(0, bytes)) + std::string(length - bytes, '\x80'));
    };
    while (begins_character(n + 1)) ++n;
    result += "\uFFFD";
    text.remove_prefix(n);
  }
  return result;
}

}  // namespace vitrine
