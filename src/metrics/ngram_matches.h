// The n-grams that a hypothesis shares with its reference: what BLEU and chrF count.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace vitrine {

struct NgramMatches {
  std::int64_t hypothesis = 0, reference = 0;  ///< N-grams of each text.
  std::int64_t matches = 0;                    ///< Those in both; each counts as often as in the text with fewer of it.

  NgramMatches& operator+=(const NgramMatches& other);
};

/// Counts the n-grams of two texts: of their characters, or of their words if the elements are numbers of words. Takes
/// time n · L log L for L elements.
NgramMatches match_ngrams(std::u32string_view hypothesis, std::u32string_view reference, std::size_t n);

/// Two texts with a number in place of each word; equal words have equal numbers.
std::pair<std::u32string, std::u32string> number_words(std::span<const std::u32string_view> hypothesis,
                                                       std::span<const std::u32string_view> reference);

}  // namespace vitrine
