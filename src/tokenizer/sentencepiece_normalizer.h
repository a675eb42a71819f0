// SentencePiece's normalization of a text: the character map, whitespace, the dummy prefix.
//
// Source: google/sentencepiece, normalizer.cc (Normalizer::Normalize).
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/algorithms/prefix_trie.h"
#include "tokenizer/read/sentencepiece_model.h"

namespace vitrine {

inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // ▁

/// `piece` with every ▁ replaced by a space.
std::string with_spaces(std::string_view piece);

class SentencePieceNormalizer {
 public:
  /// `model` must outlive this object.
  explicit SentencePieceNormalizer(const SentencePieceModel& model);

  /// The position of a part in the text. A part after a special token gets no dummy prefix and keeps a leading space.
  struct Place {
    bool at_start = true;
    bool at_end = true;
  };
  std::string normalize(std::string_view text, Place place) const;

  /// The user-defined pieces.
  const PrefixTrie& user_defined() const { return user_defined_; }

 private:
  struct Step {
    std::size_t length;  // bytes of the text
    std::string_view replacement;
  };
  Step step(std::string_view text) const;

  const SentencePieceModel& model_;
  PrefixTrie user_defined_;
};

}  // namespace vitrine
