// The tokenizers of BLEU. They are part of the definition of a score, and unrelated to the tokenizer of a model.
//
// Source: mteval-v13a.pl and mteval-v14.pl of NIST, as sacreBLEU (Post 2018) applies them.
#pragma once

#include <string>
#include <string_view>

namespace vitrine {

enum class ScoreTokenizer {
  v13a,       ///< Separates ASCII punctuation except apostrophes, hyphens that follow no digit, and . and , in numbers.
  intl,       ///< Separates all punctuation and symbols of Unicode, but not punctuation between numbers.
  character,  ///< Separates all characters.
  none,       ///< The text is tokenized already.
};

/// The name in sacreBLEU: 13a, intl, char or none.
std::string_view name_of(ScoreTokenizer tokenizer);

/// The text of one line (see line_characters()) with white space around every token (see split_words()).
std::u32string score_tokenized(std::u32string_view line, ScoreTokenizer tokenizer);

}  // namespace vitrine
