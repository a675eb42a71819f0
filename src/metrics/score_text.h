// Text as sacreBLEU sees it: classes of characters, words between white space, lower case. Scores of translations are
// comparable only if these rules are the same everywhere.
//
// Source: Post 2018, A Call for Clarity in Reporting BLEU Scores, https://aclanthology.org/W18-6319, whose program
// takes white space and lower case from Python's str, and the classes from the package `regex`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

/// A line of a translation and what it should be; both are valid UTF-8 without line breaks.
struct LinePair {
  std::string_view hypothesis, reference;
};

enum class CharacterClass { number, punctuation, symbol, other };

/// Unicode's categories N*, P* and S*, as of Unicode 18 with every utf8proc from Unicode 14 to 18.
CharacterClass class_of(std::uint32_t c);

/// The white space of Python's str.split(): Unicode's White_Space and the four separators U+001C to U+001F.
bool is_separator(std::uint32_t c);

/// The words between white space.
std::vector<std::u32string_view> split_words(std::u32string_view text);

/// Lower case as Python's str.lower() makes it: İ becomes two characters, and Σ becomes ς at the end of a word. Python
/// 3.11 leaves letters that are newer than Unicode 14 as they are, newer versions and this function do not. `text` must
/// be valid UTF-8.
std::string full_lowercase(std::string_view text);

/// The characters of a line, in lower case if `lowercase`, without white space at its end. `line` must be valid UTF-8.
std::u32string line_characters(std::string_view line, bool lowercase);

// The tokenizers of BLEU. They are part of the definition of a score, and unrelated to the tokenizer of a model.
//
// Source: mteval-v13a.pl and mteval-v14.pl of NIST, as sacreBLEU (Post 2018) applies them.

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
