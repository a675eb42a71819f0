#include "tokenizer/sentencepiece_normalizer.h"

#include <utility>

#include "tokenizer/metaspace.h"
#include "tokenizer/utf8.h"

namespace vitrine {

std::string with_spaces(std::string_view piece) {
  std::string text;
  for (;;) {
    const std::size_t found = piece.find(kSpaceSymbol);
    text += piece.substr(0, found);
    if (found == piece.npos) return text;
    text += ' ';
    piece.remove_prefix(found + kSpaceSymbol.size());
  }
}

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceModel& model) : model_(model) {
  std::vector<PrefixTrie::Key> keys;
  for (const VocabularyPiece& piece : model.pieces) {
    if (piece.type == PieceType::user_defined) keys.emplace_back(piece.text, 0);
  }
  user_defined_ = PrefixTrie(std::move(keys));
}

/// Normalizes the front of the text: a user-defined piece is unchanged; otherwise the longest rule applies; otherwise
/// one character is unchanged, and an invalid byte becomes U+FFFD.
SentencePieceNormalizer::Step SentencePieceNormalizer::step(std::string_view text) const {
  if (const std::size_t length = user_defined_.longest(text).length; length > 0)
    return {length, text.substr(0, length)};
  if (const Charsmap::Match match = model_.charsmap.longest(text); match.length > 0)
    return {match.length, match.replacement};
  const std::size_t length = character_length(text);
  if (length == 0 || (length == 1 && static_cast<unsigned char>(text[0]) >= 0x80)) return {1, "\xEF\xBF\xBD"};
  return {length, text.substr(0, length)};
}

std::string SentencePieceNormalizer::normalize(std::string_view text, Place place) const {
  std::string normal;
  const std::string_view space = model_.escape_whitespaces ? kSpaceSymbol : " ";
  if (model_.remove_extra_whitespaces && place.at_start) {
    while (!text.empty()) {
      const Step front = step(text);
      if (front.replacement != " ") break;
      text.remove_prefix(front.length);
    }
  }
  if (text.empty()) return normal;
  normal.reserve(text.size() + text.size() / 4 + 16);
  if (!model_.whitespace_as_suffix && model_.add_dummy_prefix && place.at_start) normal += space;

  bool after_space = model_.remove_extra_whitespaces && place.at_start;
  while (!text.empty()) {
    auto [length, replacement] = step(text);
    while (after_space && replacement.starts_with(' ')) replacement.remove_prefix(1);
    append_with_spaces_as(space, replacement, normal);
    if (!replacement.empty()) after_space = model_.remove_extra_whitespaces && replacement.ends_with(' ');
    text.remove_prefix(length);
  }
  if (model_.remove_extra_whitespaces) {
    while (normal.ends_with(space)) normal.resize(normal.size() - space.size());
  }
  if (model_.whitespace_as_suffix && model_.add_dummy_prefix && place.at_end) normal += space;
  return normal;
}

}  // namespace vitrine
